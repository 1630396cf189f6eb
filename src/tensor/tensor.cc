#include "tensor/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/error.h"

namespace quire {

Shape::Shape(std::initializer_list<int64_t> dims)
    : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    throw Error("a tensor of " + std::to_string(dims.size()) + " dimensions; at most 4 are supported");
  }
  std::copy(dims.begin(), dims.end(), dims_.begin());
  rank_ = static_cast<int>(dims.size());
}

int64_t Shape::numel() const {
  int64_t n = 1;
  for (int i = 0; i < rank_; ++i) n *= dims_[static_cast<size_t>(i)];
  return n;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(dims_[static_cast<size_t>(i)]);
  }
  return text + "]";
}

Buffer::Buffer(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  constexpr size_t kPage = 4096;
  constexpr size_t kHugePage = size_t{2} << 20;
  if (bytes > std::numeric_limits<size_t>::max() / 2)
    throw Error("cannot allocate " + std::to_string(bytes) + " bytes");
  const size_t mapped = (bytes + kPage - 1) / kPage * kPage;
  // Larger ones begin at a huge page, so that all but their end is made of such.
  const size_t reserved = bytes >= kHugePage ? mapped + kHugePage : mapped;
  // Anonymous pages are zero and cost nothing until they are touched.
  void* p =
      mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw Error("cannot allocate " + std::to_string(bytes) + " bytes");
  auto* begin = static_cast<std::byte*>(p);
  if (reserved > mapped) {
    const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
    if (before > 0) munmap(begin, before);
    begin += before;
    if (before < kHugePage) munmap(begin + mapped, kHugePage - before);
    madvise(begin, mapped, MADV_HUGEPAGE);
  }
  data_ = std::unique_ptr<std::byte, Unmap>(begin, Unmap(mapped));
}

void Buffer::Unmap::operator()(std::byte* p) const {
  munmap(p, bytes);
}

int64_t TensorView::row_size() const {
  int64_t n = 1;
  for (int i = 1; i < shape.rank(); ++i) n *= shape[i];
  return n;
}

TensorView make_view(void* data, DType dtype, Shape shape) {
  TensorView view{data, dtype, shape, 0};
  view.row_stride = view.row_size();
  return view;
}

TensorView column_slice(const TensorView& view, int64_t begin, int64_t end) {
  auto* bytes = static_cast<std::byte*>(view.data) + static_cast<size_t>(begin) * dtype_size(view.dtype);
  return TensorView{bytes, view.dtype, Shape{view.shape[0], end - begin}, view.row_stride};
}

TensorView row_slice(const TensorView& view, int64_t begin, int64_t end) {
  auto* bytes = static_cast<std::byte*>(view.data) +
                static_cast<size_t>(begin * view.row_stride) * dtype_size(view.dtype);
  std::array<int64_t, Shape::kMaxRank> dims = {};
  for (int i = 0; i < view.shape.rank(); ++i) dims[static_cast<size_t>(i)] = view.shape[i];
  dims[0] = end - begin;
  return TensorView{bytes, view.dtype,
                    Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(view.shape.rank()))),
                    view.row_stride};
}

}  // namespace quire
