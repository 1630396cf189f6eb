// Tensors of a checkpoint as float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/checkpoint.h"

namespace quire {

// Throws Error if the tensor is not a matrix or a weight is not finite.
struct FloatMatrix {
  int64_t n = 0;
  int64_t k = 0;
  std::vector<float> values;  // [n, k]
};
FloatMatrix read_matrix(const Checkpoint& checkpoint, const std::string& name);
// All elements of a tensor of any shape.
std::vector<float> read_floats(const Checkpoint& checkpoint, const std::string& name);

// Reads a tensor row by row, without loading all of it. Thread-safe. The checkpoint must outlive this object.
class FloatRows {
 public:
  // A tensor of any shape, divided into `rows` rows.
  FloatRows(const Checkpoint& checkpoint, std::string name, int64_t rows);

  int64_t rows() const { return n_; }
  int64_t columns() const { return k_; }
  // out: columns() elements. Returns false if one is not finite; refuse() then throws the error.
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
