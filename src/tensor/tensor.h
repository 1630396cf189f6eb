// Memory and tensors. Buffer owns memory; TensorView is a non-owning view with a shape.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "tensor/dtype.h"

namespace quire {

// Up to four dimensions, outermost first.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);  // throws Error above kMaxRank
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  int64_t numel() const;
  std::string to_string() const;  // "[2, 3]"
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<int64_t, kMaxRank> dims_ = {};
  int rank_ = 0;
};

// Zeroed, page-aligned CPU memory, in huge pages from 64 KiB on. Movable, not copyable. Buffers can be
// created and destroyed on any thread.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes);  // throws Error with the size if allocation fails
  // Memory that `owner` keeps alive. It must not be written to, because its pages may be read-only.
  static Buffer borrowed(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_.get());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }

 private:
  struct Unmap {
    Unmap() noexcept : bytes(0) {}
    explicit Unmap(size_t n) noexcept : bytes(n) {}
    explicit Unmap(std::shared_ptr<const void> keeper) noexcept : bytes(0), owner(std::move(keeper)) {}
    size_t bytes;
    std::shared_ptr<const void> owner;  // of borrowed memory, which is not unmapped here
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Unmap> data_;
  size_t size_ = 0;
};

// A non-owning view of a tensor. Rows (the outermost dimension) may be strided; the elements of a row are
// contiguous. The parameter name tells whether a function writes to the elements (`out`, `inout`) or only
// reads them.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  int64_t row_stride = 0;  // distance between rows, in elements

  int64_t rows() const { return shape.rank() == 0 ? 1 : shape[0]; }
  int64_t row_size() const;  // elements per row
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  template <typename T>
  T* row(int64_t i) const {
    return static_cast<T*>(data) + i * row_stride;
  }
};

// A contiguous view.
TensorView make_view(void* data, DType dtype, Shape shape);
// Columns [begin, end) of a two-dimensional view.
TensorView column_slice(const TensorView& view, int64_t begin, int64_t end);
// Rows [begin, end).
TensorView row_slice(const TensorView& view, int64_t begin, int64_t end);

}  // namespace quire
