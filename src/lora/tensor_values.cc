#include "lora/tensor_values.h"

#include <algorithm>
#include <cstdint>

#include "base/strings.h"
#include "quant/codec.h"

namespace quire::lora {
namespace {

// Elements of an array of float32, bfloat16 or float16 as bits: the index of the first one that is not
// finite, or -1.
template <typename Bits>
int64_t first_not_finite(const std::byte* data, int64_t count, Bits exponent) {
  const auto* bits = reinterpret_cast<const Bits*>(data);
  bool found = false;
  for (int64_t i = 0; i < count; ++i) found |= (bits[i] & exponent) == exponent;
  if (!found) return -1;
  return std::find_if(bits, bits + count, [&](Bits b) { return (b & exponent) == exponent; }) - bits;
}

int64_t first_not_finite(DType dtype, const std::byte* data, int64_t count) {
  if (dtype == DType::kF32) return first_not_finite<uint32_t>(data, count, 0x7f800000U);
  return first_not_finite<uint16_t>(data, count, dtype == DType::kBF16 ? 0x7f80 : 0x7c00);
}

template <typename Element>
void transpose(const std::byte* data, int64_t rows, int64_t columns, Buffer& out) {
  const auto* from = reinterpret_cast<const Element*>(data);
  Element* to = out.as<Element>();
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) to[c * rows + r] = from[r * columns + c];
  }
}

}  // namespace

std::vector<float> in_order(std::vector<float> stored, const std::optional<RowLayout>& layout) {
  if (!layout) return stored;
  std::vector<float> ordered;
  ordered.reserve(stored.size());
  for_each_run(*layout, [&](int64_t first, int64_t count) {
    ordered.insert(ordered.end(), stored.begin() + first, stored.begin() + first + count);
  });
  return ordered;
}

void TensorValues::read(const TensorInfo& tensor, DType dtype, std::byte* out) {
  const auto count = static_cast<int64_t>(tensor.bytes / dtype_size(tensor.dtype));
  const bool same = tensor.dtype == dtype;
  if (!same) raw_.resize(std::max(raw_.size(), tensor.bytes));
  std::byte* stored = same ? out : raw_.data();
  reader_.read(tensor, {stored, tensor.bytes});
  if (const int64_t at = first_not_finite(tensor.dtype, stored, count); at >= 0)
    problems_.add(cat(shown(tensor.name), ": element ", at, " is not a finite number"));
  if (!same) decode_f32(tensor.dtype, stored, reinterpret_cast<float*>(out), count);
}

const std::byte* TensorValues::read(const TensorInfo& tensor, DType dtype) {
  const size_t bytes = tensor.bytes / dtype_size(tensor.dtype) * dtype_size(dtype);
  converted_.resize(std::max(converted_.size(), bytes));
  read(tensor, dtype, converted_.data());
  return converted_.data();
}

Buffer TensorValues::read_transposed(const TensorInfo& tensor, DType dtype) {
  const std::byte* stored = read(tensor, dtype);
  const int64_t rows = tensor.shape[0];
  const int64_t columns = tensor.shape[1];
  Buffer out(static_cast<size_t>(rows * columns) * dtype_size(dtype));
  if (dtype == DType::kF32) {
    transpose<float>(stored, rows, columns, out);
  } else {
    transpose<uint16_t>(stored, rows, columns, out);
  }
  return out;
}

}  // namespace quire::lora
