// Lays out the scratch of a part: matrices one behind the other, each from a cache line on. Used by one
// thread.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace quire {

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
