#include "quant/weight_format.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/strings.h"
#include "quant/coded_layout.h"
#include "quant/int_layout.h"
#include "quant/two_of_four.h"

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

// As good as a scale for each 32 k's, and as fast as one for each 128.
constexpr WeightFormat int4_with_factors() {
  WeightFormat format = int4_weights(ActivationFormat::kInt8, 128);
  format.factor_group = 32;
  return format;
}

// docs/weight-formats.md has what each costs. The head is where 4 bits hurt most: it keeps 8.
constexpr WeightFormat kInt8 = int8_weights(ActivationFormat::kInt8, 128);
constexpr WeightFormat kInt8Tokens = int8_weights(ActivationFormat::kInt8, 0);
constexpr WeightFormat kInt8Floats = int8_weights(ActivationFormat::kFloat, 0);
constexpr std::array<Quantization, 7> kQuantizations = {{
    {"int8", kInt8, kInt8},
    {"int4", int4_with_factors(), kInt8},
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
            "weights are stored as float32, bfloat16, float16 or int8, not as ", dtype_name(format.dtype));
    return;
  }
  require(!format.two_of_four, "two of four weights are kept of floats, not of codes");
  require(format.code_bits == 8 || format.code_bits == 4, "codes have 8 or 4 bits, not ", format.code_bits);
  const auto check_group = [&](std::string_view what, int32_t size) {
    require(size >= 0 && size % 8 == 0 && size <= IntLayout::kMaxUnit, what,
            " must be 0 or a multiple of 8 up to ", IntLayout::kMaxUnit, ", not ", size);
  };
  check_group("group_size", format.group_size);
  check_group("activation_group", format.activation_group);
  const int32_t small = std::min(format.group_size, format.activation_group);
  const int32_t large = std::max(format.group_size, format.activation_group);
  require(small == 0 || large % small == 0, "of group_size ", format.group_size, " and activation_group ",
          format.activation_group, " one must be a multiple of the other");
  if (format.factor_group != 0) {
    require(format.code_bits == 4 && !format.zero_points,
            "factors are for codes of 4 bits without zero points");
    require(format.activations == ActivationFormat::kInt8, "factors are for activations of int8");
    require(format.factor_group > 0 && format.factor_group % 8 == 0 &&
                format.group_size % format.factor_group == 0 && format.group_size > 0 &&
                format.group_size / format.factor_group <= IntLayout::kMaxFactors,
            "factor_group must be a multiple of 8, of which group_size is 1 to ", IntLayout::kMaxFactors,
            " times as many, not ", format.factor_group);
    // Sums of a group's products stay below 2^24, so that float32 has them exactly.
    require(format.group_size <= 1024, "with factors group_size must be at most 1024, not ",
            format.group_size);
    require(format.activation_group % format.group_size == 0, "with factors activation_group must be 0 or a ",
            "multiple of group_size, not ", format.activation_group);
  }
  if (!format.zero_points) return;
  require(format.code_bits == 4, "zero points are for codes of 4 bits");
  require(format.group_size > 0 && format.group_size <= 256,
          "zero points need a group_size of 8 to 256, not ", format.group_size);
}

double bits_per_weight(const WeightFormat& format, int64_t k) {
  if (is_coded(format)) {
    return 8.0 * static_cast<double>(CodedLayout(format.coded, k).panel_bytes) /
           static_cast<double>(CodedLayout::kPanel * k);
  }
  const auto size = static_cast<int64_t>(dtype_size(format.dtype));
  if (format.two_of_four) {
    return 8.0 * static_cast<double>(TwoOfFour::panel_bytes(size, k)) /
           static_cast<double>(TwoOfFour::kPanel * k);
  }
  if (!is_integer(format)) return 8.0 * static_cast<double>(size);
  return 8.0 * static_cast<double>(IntLayout(format, k).panel_bytes) /
         static_cast<double>(IntLayout::kPanel * k);
}

int64_t packed_bytes(const WeightFormat& format, int64_t n, int64_t k, int64_t row_room) {
  const int64_t panels = (n + IntLayout::kPanel - 1) / IntLayout::kPanel;
  if (is_coded(format)) return panels * CodedLayout(format.coded, k).panel_bytes;
  if (is_integer(format)) return panels * IntLayout(format, k).panel_bytes;
  const auto size = static_cast<int64_t>(dtype_size(format.dtype));
  if (format.two_of_four) return panels * TwoOfFour::panel_bytes(size, k);
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
