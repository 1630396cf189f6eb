// The formats in which the matrices of a model are kept in memory, from the names, types and shapes of a
// checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/checkpoint.h"
#include "models/model.h"
#include "models/tensor_resolver.h"

namespace quire {

// Must not outlive its arguments. Any thread.
class MatrixFormats {
 public:
  MatrixFormats(const Checkpoint& checkpoint, const TensorResolver& resolver, const ModelOptions& options)
      : checkpoint_(checkpoint), resolver_(resolver), options_(options) {}

  // Number of leading tensors that have the same storage: all floats, or all the same quantized format.
  size_t num_alike(std::span<const StoredTensor* const> tensors) const;
  // The matrix of all rows of tensors with the same storage, without its data and outliers.
  PackedLinear outline(std::span<const StoredTensor* const> tensors, const MatrixSpec& spec) const;
  int64_t num_outliers(std::span<const StoredTensor* const> tensors) const;  // outliers of quantized tensors

  // One type for a whole matrix: float32 if the file mixes types.
  DType float_type(std::span<const DType> parts) const;
  // The type of a float tensor; for a quantized one the type of the model before quantization.
  DType float_type_of(const StoredTensor& tensor) const;
  DType derived_type(const DerivedSpec& spec, std::span<const StoredParam> sources) const;
  // The floating-point type of the model: `dtype` of config.json, or the type of an unquantized tensor.
  DType activation_type() const;

 private:
  const Checkpoint& checkpoint_;
  const TensorResolver& resolver_;
  const ModelOptions& options_;
};

// Bytes of the table of outliers of a matrix with n rows.
int64_t outlier_bytes(int64_t num_outliers, int64_t n);

}  // namespace quire
