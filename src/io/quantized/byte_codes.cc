// Weights of whole numbers of 8 bits, as several methods store them.
#include <algorithm>

#include "io/quantized/methods.h"

namespace quire {
namespace {

// The tensor `at.zeros` as a grid, an empty one where there is none or all are in the middle anyway.
ScaleGrid zeros_of(ModuleReader& reader, const ByteCodes& at, DType type, int64_t n, int64_t groups) {
  const TensorInfo* info = reader.find(at.zeros);
  if (info == nullptr) return {};
  const auto bytes = reader.bytes(at.zeros);
  const bool one = info->bytes == 1;
  if (one) {
    reader.need(at.zeros, {type});
  } else if (info->shape.size() == 1 && groups == 1) {
    reader.need(at.zeros, {type}, {n});
  } else if (at.transposed) {
    reader.need(at.zeros, {type}, {groups, n});
  } else {
    reader.need(at.zeros, {type}, {n, groups});
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
  CodedFormat format;
  format.code_bits = at.bits;
  format.zero = type == DType::kI8 ? 1 << (at.bits - 1) : 0;
  const ScaleGrid scales = reader.scales(at.scales, n, k, at.group_size, format, at.transposed);
  const int64_t groups = format.group_size == 0 ? 1 : (k + format.group_size - 1) / format.group_size;
  const ScaleGrid zeros = zeros_of(reader, at, type, n, groups);
  format.group_zeros = !zeros.empty();
  // Numbers with signs are those without, less half of their range.
  const auto add = static_cast<uint8_t>(format.zero);
  const auto mask = static_cast<uint8_t>((1U << at.bits) - 1U);
  const auto code = [=](uint8_t stored) { return static_cast<uint8_t>((stored + add) & mask); };
  const auto codes = reader.bytes(at.codes);
  const auto first = static_cast<size_t>(at.transposed ? 1 : k);  // of a row, times its number
  const auto step = static_cast<size_t>(at.transposed ? n : 1);
  return reader.finish(format, n, k, [=](int64_t row, const CodedRow& out) {
    const std::byte* from = codes.data() + static_cast<size_t>(row) * first;
    for (size_t i = 0; i < out.codes.size(); ++i) out.codes[i] = code(static_cast<uint8_t>(from[i * step]));
    scales.read(row, out.block_scales);
    for (size_t g = 0; g < out.group_zeros.size(); ++g)
      out.group_zeros[g] = code(zeros.byte_at(row, static_cast<int64_t>(g)));
  });
}

}  // namespace quire
