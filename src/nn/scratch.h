// Scratch memory of the mechanisms of a layer. Used by one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

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

// Where scratch memory begins. Only ops read and write the device's; the host's is for what the host computes
// for an op, and for copies of what an op has computed.
struct ScratchMemory {
  float* device = nullptr;
  float* host = nullptr;
};

// Numbers of floats.
struct ScratchSize {
  int64_t device = 0;
  int64_t host = 0;
};
inline ScratchSize larger(const ScratchSize& a, const ScratchSize& b) {
  return {std::max(a.device, b.device), std::max(a.host, b.host)};
}

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
  const ScratchSize& size() const { return size_; }  // so far

  // float32 [rows, columns]; an empty view if there are no columns.
  TensorView matrix(int64_t columns) { return matrix(rows_, columns); }
  TensorView matrix(int64_t rows, int64_t columns) {
    float* begin = take(memory_.device, size_.device, rows * columns);
    return begin == nullptr || columns == 0 ? TensorView{}
                                            : make_view(begin, DType::kF32, Shape{rows, columns});
  }
  template <class Integer>
  std::span<Integer> integers(int64_t count) {
    return take_integers<Integer>(memory_.device, size_.device, count);
  }
  template <class Integer>
  std::span<Integer> host_integers(int64_t count) {
    return take_integers<Integer>(memory_.host, size_.host, count);
  }

  // A layout with another number of rows that begins where this one ends. Mechanisms that never need their
  // scratch at the same time share memory this way; advance() past the largest one afterwards.
  ScratchLayout rest(int64_t rows) const { return ScratchLayout(rows, end()); }
  void advance(const ScratchSize& size) {
    take(memory_.device, size_.device, size.device);
    take(memory_.host, size_.host, size.host);
  }
  ScratchMemory end() const {
    if (memory_.device == nullptr) return {};
    return {memory_.device + size_.device, memory_.host + size_.host};
  }

 private:
  static float* take(float* memory, int64_t& size, int64_t floats) {
    constexpr int64_t kLine = 16;  // floats per cache line
    float* begin = memory == nullptr ? nullptr : memory + size;
    size += (floats + kLine - 1) / kLine * kLine;
    return begin;
  }
  template <class Integer>
  static std::span<Integer> take_integers(float* memory, int64_t& size, int64_t count) {
    static_assert(sizeof(Integer) % sizeof(float) == 0);
    float* begin = take(memory, size, count * static_cast<int64_t>(sizeof(Integer) / sizeof(float)));
    if (begin == nullptr) return {};
    return {reinterpret_cast<Integer*>(begin), static_cast<size_t>(count)};
  }

  int64_t rows_;
  ScratchMemory memory_;
  ScratchSize size_;
};

}  // namespace quire
