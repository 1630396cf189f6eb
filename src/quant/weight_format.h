// The storage format of a weight matrix, as plain data. Kernels are selected by it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "quant/activation_slices.h"
#include "quant/quantized_matrix.h"
#include "tensor/dtype.h"

namespace quire {

// Format to which a product converts its activations.
enum class ActivationFormat : uint8_t {
  kFloat,  // unchanged; weights are converted to float32 in registers
  kInt16,  // for integer weights: quantized dynamically to 16 bits
  kInt8,   // for integer weights: quantized dynamically to 8 bits
};

// Number of int8 slices per activation in products with integer weights (quant/activation_slices.h).
constexpr int num_activation_slices(ActivationFormat activations) {
  return activations == ActivationFormat::kInt8    ? 1
         : activations == ActivationFormat::kInt16 ? kInt16Slices
                                                   : kFloatSlices;
}

// The storage format of a weight matrix. Float matrices are described by dtype and sparse_24 alone. kI8:
// integers with scales, weight = scale * (value - zero_point), described by code_bits to activation_group.
// kU8: quantized values as in the checkpoint, described by `quantized`; kInt8 and kInt16 activations apply to
// integer values (integer_values), and the remaining fields are unused.
struct WeightFormat {
  DType dtype = DType::kF32;  // kF32, kBF16, kF16, kI8 or kU8
  bool sparse_24 = false;     // 2:4 structured sparsity: only the nonzero weights are stored
  int32_t code_bits = 8;      // 8 or 4
  int32_t group_size = 0;     // elements along K that share a weight scale, a multiple of 8; 0 = full row
  bool zero_points = false;   // zero points per group; otherwise the zero point is in the middle. int4 only
  // Elements of a group that share a second-level integer scale (quant/int_layout.h); 0 = no second level.
  // int4 only.
  int32_t second_level_group = 0;
  ActivationFormat activations = ActivationFormat::kFloat;
  int32_t activation_group = 0;  // kInt8: elements along K that share an activation scale; 0 = full row
  QuantFormat quantized = {};
  // kU8 with kInt8 activations: larger activations are not quantized with the others but multiplied as floats
  // (LLM.int8(), arXiv 2208.07339, per row). 0 = no outliers.
  float outlier_threshold = 0.0F;
  // kU8 with kInt8 activations: one activation scale per token instead of one per group (IntBlocking)
  bool token_scales = false;

  friend bool operator==(const WeightFormat&, const WeightFormat&) = default;
};

inline bool is_integer(const WeightFormat& format) {
  return format.dtype == DType::kI8;
}
inline bool is_quantized(const WeightFormat& format) {
  return format.dtype == DType::kU8;
}

// Throws Error with the invalid field if no kernel supports the format.
void check_weight_format(const WeightFormat& format);

// Bits per weight, including scales and zero points, for rows of k weights.
double bits_per_weight(const WeightFormat& format, int64_t k);

// Bytes of a matrix [n, k] in full panels; a panel has 32 rows in all layouts. row_room: allocated elements
// per row of dense floats.
int64_t packed_bytes(const WeightFormat& format, int64_t n, int64_t k, int64_t row_room);
inline int64_t packed_bytes(const WeightFormat& format, int64_t n, int64_t k) {
  return packed_bytes(format, n, k, k);
}

// Quantization of a float checkpoint at load.
struct Quantization {
  std::string_view name;  // "int8"
  WeightFormat layers;    // format of the matrices of the layers
  WeightFormat head;      // format of the output embedding, and of the input embedding if they are tied
};

// Returns the quantization of that name, or nullopt for "auto": weights keep their format. Throws Error with
// all names if the name is unknown.
std::optional<Quantization> quantization_from_name(std::string_view name);
// All names that quantization_from_name accepts, "auto" first, separated by `between`.
std::string quantization_names(std::string_view between = ", ");

}  // namespace quire
