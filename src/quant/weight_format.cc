#include "quant/weight_format.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/strings.h"
#include "quant/int_layout.h"
#include "quant/quant_layout.h"
#include "quant/sparse_24.h"

namespace quire {
namespace {

constexpr WeightFormat int8_weights(ActivationFormat activations, int32_t activation_group) {
  return {.dtype = DType::kI8,
          .code_bits = 8,
          .group_size = 0,
          .zero_points = false,
          .activations = activations,
          .activation_group = activation_group};
}

constexpr WeightFormat int4_weights(ActivationFormat activations, int32_t group_size) {
  return {.dtype = DType::kI8,
          .code_bits = 4,
          .group_size = group_size,
          .zero_points = false,
          .activations = activations,
          .activation_group = activations == ActivationFormat::kInt8 ? group_size : 0};
}

// As accurate as one scale per 32 elements along K, and as fast as one per 128.
constexpr WeightFormat int4_two_level() {
  WeightFormat format = int4_weights(ActivationFormat::kInt8, 128);
  format.second_level_group = 32;
  return format;
}

// docs/weight-formats.md has measurements. The head is most sensitive to 4 bits, so it keeps 8.
constexpr WeightFormat kInt8 = int8_weights(ActivationFormat::kInt8, 128);
constexpr WeightFormat kInt8Tokens = int8_weights(ActivationFormat::kInt8, 0);
constexpr WeightFormat kInt8Floats = int8_weights(ActivationFormat::kFloat, 0);
constexpr std::array<Quantization, 7> kQuantizations = {{
    {"int8", kInt8, kInt8},
    {"int4", int4_two_level(), kInt8},
    {"int4-g64", int4_weights(ActivationFormat::kInt8, 64), kInt8},
    {"int4-g128", int4_weights(ActivationFormat::kInt8, 128), kInt8},
    {"w8a8", kInt8Tokens, kInt8Tokens},
    {"w8a16", kInt8Floats, kInt8Floats},
    {"w4a16", int4_weights(ActivationFormat::kFloat, 32), kInt8Floats},
}};

}  // namespace

void check_weight_format(const WeightFormat& format) {
  const auto require = [](bool ok, const auto&... problem) {
    if (!ok) throw Error(cat("weight format: ", problem...));
  };
  if (!is_integer(format)) {
    require(format.dtype == DType::kF32 || format.dtype == DType::kBF16 || format.dtype == DType::kF16,
            "unsupported dtype; use float32, bfloat16, float16 or int8 instead of ",
            dtype_name(format.dtype));
    return;
  }
  require(!format.sparse_24, "2:4 sparsity is supported for float weights only");
  require(format.code_bits == 8 || format.code_bits == 4, "code_bits must be 8 or 4, not ", format.code_bits);
  const auto check_group = [&](std::string_view what, int32_t size) {
    require(size >= 0 && size % 8 == 0 && size <= IntLayout::kMaxUnit, what,
            " must be 0 or a multiple of 8 up to ", IntLayout::kMaxUnit, ", not ", size);
  };
  check_group("group_size", format.group_size);
  check_group("activation_group", format.activation_group);
  const int32_t small = std::min(format.group_size, format.activation_group);
  const int32_t large = std::max(format.group_size, format.activation_group);
  require(small == 0 || large % small == 0, "group_size ", format.group_size, " and activation_group ",
          format.activation_group, ": one must be a multiple of the other");
  if (format.second_level_group != 0) {
    require(format.code_bits == 4 && !format.zero_points,
            "second-level scales need 4-bit weights without zero points");
    require(format.activations == ActivationFormat::kInt8, "second-level scales need int8 activations");
    require(format.second_level_group > 0 && format.second_level_group % 8 == 0 &&
                format.group_size % format.second_level_group == 0 && format.group_size > 0 &&
                format.group_size / format.second_level_group <= IntLayout::kMaxSecondLevelScales,
            "second_level_group must be a multiple of 8, and group_size 1 to ",
            IntLayout::kMaxSecondLevelScales, " times as large, not ", format.second_level_group);
    // Sums of a group's products stay below 2^24, so that they are exact in float32.
    require(format.group_size <= 1024, "with second-level scales, group_size must be at most 1024, not ",
            format.group_size);
    require(format.activation_group % format.group_size == 0,
            "with second-level scales, activation_group must be 0 or a ", "multiple of group_size, not ",
            format.activation_group);
  }
  if (!format.zero_points) return;
  require(format.code_bits == 4, "zero points need 4-bit weights");
  require(format.group_size > 0 && format.group_size <= 256,
          "zero points need a group_size of 8 to 256, not ", format.group_size);
}

double bits_per_weight(const WeightFormat& format, int64_t k) {
  if (is_quantized(format)) {
    return 8.0 * static_cast<double>(QuantLayout(format.quantized, k).panel_bytes) /
           static_cast<double>(QuantLayout::kPanel * k);
  }
  const auto size = static_cast<int64_t>(dtype_size(format.dtype));
  if (format.sparse_24) {
    return 8.0 * static_cast<double>(Sparse24::panel_bytes(size, k)) /
           static_cast<double>(Sparse24::kPanel * k);
  }
  if (!is_integer(format)) return 8.0 * static_cast<double>(size);
  return 8.0 * static_cast<double>(IntLayout(format, k).panel_bytes) /
         static_cast<double>(IntLayout::kPanel * k);
}

int64_t packed_bytes(const WeightFormat& format, int64_t n, int64_t k, int64_t row_room) {
  const int64_t panels = (n + IntLayout::kPanel - 1) / IntLayout::kPanel;
  if (is_quantized(format)) return panels * QuantLayout(format.quantized, k).panel_bytes;
  if (is_integer(format)) return panels * IntLayout(format, k).panel_bytes;
  const auto size = static_cast<int64_t>(dtype_size(format.dtype));
  if (format.sparse_24) return panels * Sparse24::panel_bytes(size, k);
  return panels * IntLayout::kPanel * row_room * size;
}

std::optional<Quantization> quantization_from_name(std::string_view name) {
  if (name == "auto") return std::nullopt;
  for (const Quantization& known : kQuantizations) {
    if (known.name == name) return known;
  }
  throw Error(cat("--quantization: '", name, "' is not known; use ", quantization_names()));
}

std::string quantization_names(std::string_view between) {
  std::string names = "auto";
  for (const Quantization& known : kQuantizations) names += cat(between, known.name);
  return names;
}

}  // namespace quire
