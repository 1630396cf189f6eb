// A tensor of a checkpoint as float32 numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/checkpoint.h"

namespace quire {

// Throws Error where the tensor is no matrix, or where a number is not finite.
struct FloatMatrix {
  int64_t n = 0;
  int64_t k = 0;
  std::vector<float> values;  // [n, k]
};
FloatMatrix read_matrix(const Checkpoint& checkpoint, const std::string& name);
// All numbers of a tensor of any shape.
std::vector<float> read_floats(const Checkpoint& checkpoint, const std::string& name);

// The same numbers row by row, for tensors that need not be there as a whole. Any thread may read. The
// checkpoint must outlive it.
class FloatRows {
 public:
  // As many rows as are said, of a tensor of any shape.
  FloatRows(const Checkpoint& checkpoint, std::string name, int64_t rows);

  int64_t rows() const { return n_; }
  int64_t columns() const { return k_; }
  // out: columns() numbers. False where one is not finite, for which refuse() is there.
  bool read(int64_t row, std::span<float> out) const;
  [[noreturn]] void refuse(int64_t row) const;

 private:
  const Checkpoint& checkpoint_;
  std::string name_;
  DType dtype_;
  std::span<const std::byte> bytes_;
  int64_t n_;
  int64_t k_;
};

}  // namespace quire
