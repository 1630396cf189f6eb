// A tensor of a checkpoint as float32 numbers.
#pragma once

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

}  // namespace quire
