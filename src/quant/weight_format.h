// How a matrix of weights is stored, as data. Kernels are chosen by it.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/dtype.h"

namespace quire {

// A row for each way to store a weight matrix. Quantized formats add their group size and zero points here.
struct WeightFormat {
  DType dtype = DType::kF32;  // kF32, kBF16 or kF16

  friend bool operator==(const WeightFormat&, const WeightFormat&) = default;
};

}  // namespace quire
