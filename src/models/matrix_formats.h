// The formats in which the matrices of a model are kept in memory, from the names, types and shapes of a
// checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/checkpoint.h"
#include "models/model.h"
#include "models/param_list.h"
#include "models/tensor_resolver.h"

namespace quire {

// Must not outlive its arguments. Any thread.
class MatrixFormats {
 public:
  MatrixFormats(const TensorResolver& resolver, const ModelOptions& options)
      : checkpoint_(resolver.checkpoint()), resolver_(resolver), options_(options) {}

  // Number of leading tensors that have the same storage: all floats, or all the same quantized format.
  size_t num_alike(std::span<const StoredTensor* const> tensors) const;
  // The matrix of all rows of tensors with the same storage, without its label, data and outliers.
  PackedLinear outline(std::span<const StoredTensor* const> tensors, Precision precision) const;
  int64_t num_outliers(std::span<const StoredTensor* const> tensors) const;  // outliers of quantized tensors

  // One type for a whole matrix: float32 if the file mixes types.
  DType float_type(std::span<const DType> parts) const;
  // The type of a float tensor; for a quantized one the type of the model before quantization.
  DType float_type_of(const StoredTensor& tensor) const;
  // float32: DerivedSpec::float32.
  DType derived_type(bool float32, std::span<const StoredParam> sources) const;
  // The floating-point type of the model: `dtype` of config.json, or the type of an unquantized tensor.
  DType activation_type() const;

  // The bytes that WeightLoader would keep for a parameter.
  int64_t weight_bytes(const ListedParam& param) const;

 private:
  int64_t matrix_bytes(std::span<const StoredTensor* const> tensors, Precision precision) const;

  const Checkpoint& checkpoint_;
  const TensorResolver& resolver_;
  const ModelOptions& options_;
};

}  // namespace quire
