// AWQ: each module has qweight int32 [k, n / 8] and qzeros int32 [groups, n / 8], with eight 4-bit values per
// word, interleaved along n; scales [groups, n].
#include <array>

#include "base/error.h"
#include "base/strings.h"
#include "io/quantized/methods.h"

namespace quire {
namespace {

// Index of the 4-bit field of column 8 j + c in word j.
constexpr std::array<int64_t, 8> kPlace = {0, 4, 1, 5, 2, 6, 3, 7};

}  // namespace

QuantizedModule read_packed_outputs(ModuleReader& reader, const PackedOutputs& at) {
  const TensorInfo& weight = reader.need(at.codes, {DType::kI32}, {-1, -1});
  const int64_t k = weight.shape[0];
  const int64_t words = weight.shape[1];
  const int64_t n = words * 8;
  QuantFormat format;
  format.code_bits = 4;
  const ScaleGrid scales = reader.scales(at.scales, n, k, at.group_size, format, true);
  const int64_t group_size = format.group_size == 0 ? k : format.group_size;
  format.group_zero_points = at.group_zero_points;
  format.zero_point = 8;
  std::span<const std::byte> zero_points;
  if (format.group_zero_points) {
    reader.need(at.zero_points, {DType::kI32}, {(k + group_size - 1) / group_size, words});
    zero_points = reader.bytes(at.zero_points);
  } else {
    reader.find(at.zero_points);
  }
  const auto codes = reader.bytes(at.codes);
  const bool interleaved = at.interleaved;
  const uint8_t sign = at.with_signs ? 8 : 0;
  auto read = [=](int64_t row, const QuantizedRow& out) {
    const int64_t nibble = interleaved ? kPlace[static_cast<size_t>(row % 8)] : row % 8;
    const auto code = [&](std::span<const std::byte> from, size_t line) {
      const auto byte = (static_cast<int64_t>(line) * words + row / 8) * 4 + nibble / 2;
      const auto both = static_cast<uint8_t>(from[static_cast<size_t>(byte)]);
      return static_cast<uint8_t>(((both >> (nibble % 2 * 4)) & 15) ^ sign);
    };
    for (size_t i = 0; i < out.codes.size(); ++i) out.codes[i] = code(codes, i);
    for (size_t g = 0; g < out.group_zero_points.size(); ++g) out.group_zero_points[g] = code(zero_points, g);
    scales.read(row, out.block_scales);
  };
  return reader.finish(format, n, k, std::move(read));
}

std::vector<QuantizedModule> read_awq(const Checkpoint& files, const ConfigReader& config) {
  const int64_t bits = config.integer("bits", 1, 32, config.integer("w_bit", 1, 32, 4));
  const std::string version = config.text("version", "gemm");
  if (bits != 4 || (version != "gemm" && version != "GEMM")) {
    throw Error(cat(files.path().string(), ": AWQ weights of ", bits, " bits and version '", version,
                    "'; 4 bits and version 'gemm' are supported"));
  }
  std::vector<QuantizedModule> modules;
  const PackedOutputs at{.group_size = config.integer("group_size", -1, INT32_MAX, 128),
                         .group_zero_points = config.boolean("zero_point", true)};
  read_each(files, ".qweight", modules,
            [&](ModuleReader& reader) { return read_packed_outputs(reader, at); });
  return modules;
}

}  // namespace quire
