// 8-bit integer weights, in the storage formats of several methods.
#include <algorithm>

#include "io/quantized/methods.h"

namespace quire {
namespace {

// The zero points as a grid; an empty one if they do not exist or all are in the middle.
ScaleGrid zero_points_of(ModuleReader& reader, const ByteCodes& at, DType type, int64_t n, int64_t groups) {
  const TensorInfo* info = reader.find(at.zero_points);
  if (info == nullptr) return {};
  const auto bytes = reader.bytes(at.zero_points);
  const bool one = info->bytes == 1;
  if (one) {
    reader.need(at.zero_points, {type});
  } else if (info->shape.size() == 1 && groups == 1) {
    reader.need(at.zero_points, {type}, {n});
  } else if (at.transposed) {
    reader.need(at.zero_points, {type}, {groups, n});
  } else {
    reader.need(at.zero_points, {type}, {n, groups});
  }
  const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
  if (type == DType::kI8 && std::ranges::all_of(bytes, is_zero)) return {};
  if (one) return {type, bytes, 0, 0};
  return {type, bytes, at.transposed ? 1 : groups, at.transposed ? n : 1};
}

}  // namespace

QuantizedModule read_byte_codes(ModuleReader& reader, const ByteCodes& at) {
  const TensorInfo& weight = reader.need(at.codes, {DType::kI8, DType::kU8}, {-1, -1});
  const DType type = weight.dtype;
  const int64_t n = weight.shape[at.transposed ? 1 : 0];
  const int64_t k = weight.shape[at.transposed ? 0 : 1];
  QuantFormat format;
  format.code_bits = at.bits;
  format.zero_point = type == DType::kI8 ? 1 << (at.bits - 1) : 0;
  const ScaleGrid scales = reader.scales(at.scales, n, k, at.group_size, format, at.transposed);
  const int64_t groups = format.group_size == 0 ? 1 : (k + format.group_size - 1) / format.group_size;
  const ScaleGrid zero_points = zero_points_of(reader, at, type, n, groups);
  format.group_zero_points = !zero_points.empty();
  // Signed values are unsigned values minus half of their range.
  const auto add = static_cast<uint8_t>(format.zero_point);
  const auto mask = static_cast<uint8_t>((1U << at.bits) - 1U);
  const auto code = [=](uint8_t stored) { return static_cast<uint8_t>((stored + add) & mask); };
  const auto codes = reader.bytes(at.codes);
  const auto first = static_cast<size_t>(at.transposed ? 1 : k);  // start of a row, divided by its index
  const auto step = static_cast<size_t>(at.transposed ? n : 1);
  return reader.finish(format, n, k, [=](int64_t row, const QuantizedRow& out) {
    const std::byte* from = codes.data() + static_cast<size_t>(row) * first;
    for (size_t i = 0; i < out.codes.size(); ++i) out.codes[i] = code(static_cast<uint8_t>(from[i * step]));
    scales.read(row, out.block_scales);
    for (size_t g = 0; g < out.group_zero_points.size(); ++g)
      out.group_zero_points[g] = code(zero_points.byte_at(row, static_cast<int64_t>(g)));
  });
}

}  // namespace quire
