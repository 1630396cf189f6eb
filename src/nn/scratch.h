// Scratch that the parts of a layer work in. Used by one thread.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace quire {

// The first rows and columns of scratch that may be larger; no columns: an empty view.
inline TensorView part(const TensorView& view, int64_t rows, int64_t columns) {
  if (columns == 0) return {};
  return column_slice(row_slice(view, 0, rows), 0, columns);
}

// Lays out a part's scratch: matrices one behind the other, each from a cache line on.
class ScratchLayout {
 public:
  // Matrices of so many rows, from `memory` on; null: they are only counted, and views are empty.
  ScratchLayout(int64_t rows, float* memory) : rows_(rows), memory_(memory) {}

  // float32 [rows, columns]; no columns: an empty view.
  TensorView matrix(int64_t columns) {
    constexpr int64_t kLine = 16;  // floats in a cache line
    const int64_t begin = size_;
    size_ += (rows_ * columns + kLine - 1) / kLine * kLine;
    if (memory_ == nullptr || columns == 0) return {};
    return make_view(memory_ + begin, DType::kF32, Shape{rows_, columns});
  }
  int64_t size() const { return size_; }  // floats so far

 private:
  int64_t rows_;
  float* memory_;
  int64_t size_ = 0;
};

}  // namespace quire
