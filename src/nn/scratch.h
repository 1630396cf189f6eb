// Scratch memory of the mechanisms of a layer. Used by one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace quire {

// The first rows and columns of a view; an empty view if columns is 0.
inline TensorView part(const TensorView& view, int64_t rows, int64_t columns) {
  if (columns == 0) return {};
  return column_slice(row_slice(view, 0, rows), 0, columns);
}

// The first columns of a matrix that may be empty; an empty view if columns is 0.
inline TensorView leading_columns(const TensorView& view, int64_t columns) {
  return view.data == nullptr || columns == 0 ? TensorView{} : column_slice(view, 0, columns);
}

// The columns of a matrix, part by part.
class ColumnParts {
 public:
  explicit ColumnParts(const TensorView& all) : all_(all) {}
  TensorView next(int64_t columns) {
    end_ += columns;
    return column_slice(all_, end_ - columns, end_);
  }

 private:
  TensorView all_;
  int64_t end_ = 0;
};

// Where scratch memory begins. Only ops read and write it.
struct ScratchMemory {
  float* begin = nullptr;
  // Copies to it, while it is laid out; null = the host writes to it.
  const std::function<void(void* dst, const void* src, size_t bytes)>* copy = nullptr;
};

// Hands out consecutive areas of scratch memory, each aligned to a cache line. The same code lays out the
// scratch of a mechanism in a step and, without memory, computes its size before the first step. That code is
// a struct whose members are initialized in order:
//   struct MlaScratch {
//     const MlaSpec& spec;
//     ScratchLayout layout;
//     TensorView latent = layout.matrix(spec.cache_dim());
//   };
class ScratchLayout {
 public:
  // rows: tokens of the step, or the maximum of all steps. Without memory it counts only, and views are
  // empty.
  explicit ScratchLayout(int64_t rows, const ScratchMemory& memory = {}) : rows_(rows), memory_(memory) {}

  int64_t rows() const { return rows_; }
  int64_t size() const { return size_; }  // floats so far

  // float32 [rows, columns]; an empty view if there are no columns.
  TensorView matrix(int64_t columns) { return matrix(rows_, columns); }
  TensorView matrix(int64_t rows, int64_t columns) {
    float* begin = take(rows * columns);
    return begin == nullptr || columns == 0 ? TensorView{}
                                            : make_view(begin, DType::kF32, Shape{rows, columns});
  }
  template <class Integer>
  std::span<Integer> integers(int64_t count) {
    static_assert(sizeof(Integer) % sizeof(float) == 0);
    float* begin = take(count * static_cast<int64_t>(sizeof(Integer) / sizeof(float)));
    if (begin == nullptr) return {};
    return {reinterpret_cast<Integer*>(begin), static_cast<size_t>(count)};
  }
  // Integers that never change: fill(values) sets them when the memory is laid out.
  template <class Fill>
  std::span<int32_t> constants(int64_t count, const Fill& fill) {
    const std::span<int32_t> device = integers<int32_t>(count);
    if (device.empty()) return device;
    std::vector<int32_t> values(device.size());
    fill(std::span(values));
    if (memory_.copy != nullptr) {
      (*memory_.copy)(device.data(), values.data(), device.size_bytes());
    } else {
      std::ranges::copy(values, device.begin());
    }
    return device;
  }

  // A layout with another number of rows that begins where this one ends. Mechanisms that never need their
  // scratch at the same time share memory this way; advance() past the largest one afterwards.
  ScratchLayout rest(int64_t rows) const { return ScratchLayout(rows, end()); }
  void advance(int64_t size) { take(size); }
  ScratchMemory end() const { return {memory_.begin == nullptr ? nullptr : memory_.begin + size_}; }

 private:
  float* take(int64_t floats) {
    constexpr int64_t kLine = 16;  // floats per cache line
    float* begin = memory_.begin == nullptr ? nullptr : memory_.begin + size_;
    size_ += (floats + kLine - 1) / kLine * kLine;
    return begin;
  }

  int64_t rows_;
  ScratchMemory memory_;
  int64_t size_ = 0;
};

}  // namespace quire
