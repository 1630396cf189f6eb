// How a matrix of weights is stored, as data. Kernels are chosen by it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "quant/activation_digits.h"
#include "quant/coded_matrix.h"
#include "tensor/dtype.h"

namespace quire {

// What a product takes its activations as.
enum class ActivationFormat : uint8_t {
  kFloat,  // as they are: weights become float32 in registers
  kInt16,  // of codes of whole numbers: rounded to 16 bits with scales of their own as the product begins
  kInt8,   // the same with 8 bits
};

// Digits of int8 that an activation becomes where it meets codes of whole numbers
// (quant/activation_digits.h).
constexpr int num_activation_digits(ActivationFormat activations) {
  return activations == ActivationFormat::kInt8    ? 1
         : activations == ActivationFormat::kInt16 ? kInt16Digits
                                                   : kFloatDigits;
}

// A row for each way to store a weight matrix. dtype and two_of_four alone say it for floats. kI8 says that
// elements are whole numbers with scales: weight = scale * (code - zero). The other fields are for those
// alone. kU8 says that the matrix holds codes as a quantized checkpoint has them: `coded` says what they
// stand for, kInt8 and kInt16 are for codes of whole numbers (coded_numbers), and the other fields are not
// looked at.
struct WeightFormat {
  DType dtype = DType::kF32;  // kF32, kBF16, kF16, kI8 or kU8
  bool two_of_four = false;   // no more of a row's weights are not zero, and only those are kept
  int32_t code_bits = 8;      // 8 or 4
  int32_t group_size = 0;     // k's of a row of weights that share a scale, a multiple of 8; 0: the whole row
  bool zero_points = false;   // each group has a zero of its own; else it is in the middle. 4 bits only
  // k's of a group that share a whole factor of its scale (quant/int_layout.h); 0: there are none. 4 bits
  // only
  int32_t factor_group = 0;
  ActivationFormat activations = ActivationFormat::kFloat;
  int32_t activation_group = 0;  // kInt8: k's of a row of activations that share a scale; 0: the whole row
  CodedFormat coded = {};
  // Codes with kInt8: activations that are larger are not rounded with the others, but meet the weights as
  // they are (LLM.int8(), arXiv 2208.07339, for each row by itself). 0: none are.
  float outlier_threshold = 0.0F;

  friend bool operator==(const WeightFormat&, const WeightFormat&) = default;
};

inline bool is_integer(const WeightFormat& format) {
  return format.dtype == DType::kI8;
}
inline bool is_coded(const WeightFormat& format) {
  return format.dtype == DType::kU8;
}

// Throws Error that names the field at fault where no kernel takes matrices of that format.
void check_weight_format(const WeightFormat& format);

// Bits of a weight with its share of scales and zero points, in a row of k.
double bits_per_weight(const WeightFormat& format, int64_t k);

// Bytes of a matrix [n, k] in whole panels, of 32 rows in all layouts; of floats, if they are all kept, each
// row has room for `row_room` elements.
int64_t packed_bytes(const WeightFormat& format, int64_t n, int64_t k, int64_t row_room);
inline int64_t packed_bytes(const WeightFormat& format, int64_t n, int64_t k) {
  return packed_bytes(format, n, k, k);
}

// What a checkpoint of floats becomes as it is loaded.
struct Quantization {
  std::string_view name;  // "int8"
  WeightFormat layers;    // the matrices of the layers
  WeightFormat head;      // the output embedding, the input embedding too where they are tied
};

// The quantization of that name; none: "auto", the weights stay what they are. Throws Error naming those
// there are.
std::optional<Quantization> quantization_from_name(std::string_view name);
// All names that quantization_from_name takes, "auto" first, parted by `between`.
std::string quantization_names(std::string_view between = ", ");

}  // namespace quire
