#include "lora/tensor_values.h"

#include <algorithm>
#include <cstdint>

#include "base/strings.h"
#include "io/gguf/ggml_decode.h"
#include "io/gguf/gguf_arch.h"
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

// out = the matrix [rows, columns] in the model's order.
template <typename Element>
void put_in_order(const Element* stored, const GgufForm& form, int64_t rows, int64_t columns, Element* out) {
  std::vector<int32_t> order;
  if (form.pairs_of > 1) order = gguf_pair_rows(rows, rows / form.pairs_of);
  for (int64_t r = 0; r < rows; ++r) {
    Element* to = out + (order.empty() ? r : order[static_cast<size_t>(r)]) * columns;
    for (int64_t c = 0; c < columns; ++c)
      to[c] = form.transposed ? stored[c * rows + r] : stored[r * columns + c];
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

void TensorValues::check_finite(const TensorInfo& tensor, DType dtype, const std::byte* data, int64_t count) {
  if (const int64_t at = first_not_finite(dtype, data, count); at >= 0)
    problems_.add(cat(shown(tensor.name), ": element ", at, " is not a finite number"));
}

void TensorValues::read(const TensorInfo& tensor, DType dtype, std::byte* out) {
  if (file_.gguf) return read_gguf(tensor, file_.gguf->forms.find(tensor.name)->second, dtype, out);
  const auto count = static_cast<int64_t>(tensor.bytes / dtype_size(tensor.dtype));
  const bool same = tensor.dtype == dtype;
  if (!same) raw_.resize(std::max(raw_.size(), tensor.bytes));
  std::byte* stored = same ? out : raw_.data();
  reader_.read(tensor.offset, {stored, tensor.bytes});
  check_finite(tensor, tensor.dtype, stored, count);
  if (!same) decode_f32(tensor.dtype, stored, reinterpret_cast<float*>(out), count);
}

void TensorValues::read_gguf(const TensorInfo& tensor, const GgufForm& form, DType dtype, std::byte* out) {
  raw_.resize(std::max(raw_.size(), form.bytes));
  reader_.read(tensor.offset, {raw_.data(), form.bytes});
  const int64_t columns = tensor.shape.back();
  const auto count = static_cast<int64_t>(tensor.bytes / dtype_size(tensor.dtype));
  if (dtype != DType::kF32) {
    check_finite(tensor, dtype, raw_.data(), count);
    return put_in_order(reinterpret_cast<const uint16_t*>(raw_.data()), form, count / columns, columns,
                        reinterpret_cast<uint16_t*>(out));
  }
  decoded_.resize(std::max(decoded_.size(), static_cast<size_t>(count)));
  decode_ggml(*form.type, {raw_.data(), form.bytes}, decoded_.data());
  if (form.plus_one) {
    for (int64_t i = 0; i < count; ++i) decoded_[static_cast<size_t>(i)] -= 1.0F;
  }
  check_finite(tensor, dtype, reinterpret_cast<const std::byte*>(decoded_.data()), count);
  put_in_order(decoded_.data(), form, count / columns, columns, reinterpret_cast<float*>(out));
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
