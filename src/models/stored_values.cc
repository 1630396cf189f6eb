#include "models/stored_values.h"

#include <cstring>
#include <numeric>

#include "quant/codec.h"

namespace quire {

std::span<const std::byte> bytes_of_part(const Checkpoint& checkpoint, const StoredTensor& tensor,
                                         int64_t part) {
  const auto all = checkpoint.bytes(tensor.name);
  if (!tensor.stacked) return all;
  const size_t size = all.size() / static_cast<size_t>(tensor.shape[0]);
  return all.subspan(static_cast<size_t>(part) * size, size);
}

void copy_rows(const StoredTensor& tensor, std::byte* dst, std::span<const std::byte> source,
               size_t row_bytes) {
  if (tensor.row_layout == nullptr) {
    std::memcpy(dst, source.data(), source.size());
    return;
  }
  const RowLayout layout = tensor.row_layout(*tensor.layer, static_cast<int64_t>(source.size() / row_bytes));
  for_each_run(layout, [&](int64_t first, int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * row_bytes;
    std::memcpy(dst, source.data() + static_cast<size_t>(first) * row_bytes, bytes);
    dst += bytes;
  });
}

std::vector<int64_t> stored_rows(const StoredTensor& tensor, int64_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<int64_t> ordered(rows.size());
  copy_rows(tensor, std::as_writable_bytes(std::span(ordered)).data(), std::as_bytes(std::span(rows)),
            sizeof(int64_t));
  return ordered;
}

void read_vector(const Checkpoint& checkpoint, const StoredTensor& tensor, int64_t part, float* out) {
  const auto source = bytes_of_part(checkpoint, tensor, part);
  const DType dtype = checkpoint.find(tensor.name)->dtype;
  Buffer aligned(source.size());
  copy_rows(tensor, aligned.data(), source, dtype_size(dtype));
  decode_f32(dtype, aligned.data(), out, elements(tensor));
}

}  // namespace quire
