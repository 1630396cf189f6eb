// AWQ: for each module qweight int32 [k, n / 8] and qzeros int32 [groups, n / 8], eight codes of 4 bits in a
// word, along n and interleaved; scales [groups, n].
#include <array>

#include "base/error.h"
#include "base/strings.h"
#include "io/quantized/methods.h"

namespace quire {
namespace {

// Where column 8 j + c is in word j: its 4 bits.
constexpr std::array<int64_t, 8> kPlace = {0, 4, 1, 5, 2, 6, 3, 7};

QuantizedModule read_module(ModuleReader& reader, const nlohmann::json& config) {
  const TensorInfo& weight = reader.need(".qweight", {DType::kI32}, {-1, -1});
  const int64_t k = weight.shape[0];
  const int64_t words = weight.shape[1];
  const int64_t n = words * 8;
  CodedFormat format;
  format.code_bits = 4;
  const ScaleGrid scales =
      reader.scales(".scales", n, k, config_integer(config, "group_size", 128), format, true);
  const int64_t group_size = format.group_size == 0 ? k : format.group_size;
  format.group_zeros = config_flag(config, "zero_point", true);
  format.zero = 8;
  std::span<const std::byte> zeros;
  if (format.group_zeros) {
    reader.need(".qzeros", {DType::kI32}, {(k + group_size - 1) / group_size, words});
    zeros = reader.bytes(".qzeros");
  } else {
    reader.find(".qzeros");
  }
  const auto codes = reader.bytes(".qweight");
  auto read = [=](int64_t row, const CodedRow& out) {
    const auto code = [&](std::span<const std::byte> from, size_t line) {
      const int64_t nibble = kPlace[static_cast<size_t>(row % 8)];
      const auto at = (static_cast<int64_t>(line) * words + row / 8) * 4 + nibble / 2;
      return static_cast<uint8_t>((static_cast<uint8_t>(from[static_cast<size_t>(at)]) >> (nibble % 2 * 4)) &
                                  15);
    };
    for (size_t i = 0; i < out.codes.size(); ++i) out.codes[i] = code(codes, i);
    for (size_t g = 0; g < out.group_zeros.size(); ++g) out.group_zeros[g] = code(zeros, g);
    scales.read(row, out.block_scales);
  };
  return reader.finish(format, n, k, std::move(read));
}

}  // namespace

std::vector<QuantizedModule> read_awq(const Checkpoint& files, const nlohmann::json& config) {
  const int64_t bits = config_integer(config, "bits", config_integer(config, "w_bit", 4));
  const std::string version = config_text(config, "version", "gemm");
  if (bits != 4 || (version != "gemm" && version != "GEMM")) {
    throw Error(cat(files.path().string(), ": AWQ weights of ", bits, " bits and version '", version,
                    "'; 4 bits and version 'gemm' are supported"));
  }
  std::vector<QuantizedModule> modules;
  read_each(files, ".qweight", modules, [&](ModuleReader& reader) { return read_module(reader, config); });
  return modules;
}

}  // namespace quire
