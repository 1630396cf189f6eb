#include "io/gguf/ggml_decode.h"

#include <cstdint>
#include <vector>

#include "quant/codec.h"

namespace quire {
namespace {

// The parts of one block.
struct Parts {
  explicit Parts(const GgmlType& type)
      : codes(static_cast<size_t>(type.elements)),
        scales(static_cast<size_t>(type.elements / type.format.block_size)),
        minima(scales.size()),
        group_scales(static_cast<size_t>(type.elements / type.format.group_size)),
        group_minima(group_scales.size()) {}

  GgmlBlock block() {
    return {codes.data(), scales.data(), group_scales.data(), minima.data(), group_minima.data()};
  }

  float value(const QuantFormat& format, size_t i) const {
    const size_t group = i / static_cast<size_t>(format.group_size);
    const size_t block = i / static_cast<size_t>(format.block_size);
    const float code = format.values == CodeValues::kTable
                           ? format.table[codes[i]]
                           : static_cast<float>(static_cast<int32_t>(codes[i]) - format.zero_point);
    float scale = scales[block];
    if (format.two_levels()) scale *= static_cast<float>(group_scales[group]);
    if (!format.minima) return scale * code;
    float minimum = minima[block];
    if (format.two_levels()) minimum *= static_cast<float>(group_minima[group]);
    return scale * code - minimum;
  }

  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<float> minima;
  std::vector<int8_t> group_scales;
  std::vector<uint8_t> group_minima;
};

}  // namespace

void decode_ggml(const GgmlType& type, std::span<const std::byte> data, float* out) {
  const size_t blocks = data.size() / type.bytes;
  if (type.dtype) return decode_f32(*type.dtype, data.data(), out, static_cast<int64_t>(blocks));
  Parts parts(type);
  for (size_t b = 0; b < blocks; ++b) {
    type.unpack(reinterpret_cast<const uint8_t*>(data.data()) + b * type.bytes, parts.block());
    for (size_t i = 0; i < parts.codes.size(); ++i) *out++ = parts.value(type.format, i);
  }
}

}  // namespace quire
