// The tensor types of GGUF files: plain types, and quantized blocks with their scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "quant/quantized_matrix.h"
#include "tensor/dtype.h"

namespace quire {

// Destinations for the parts of a block, in a QuantizedRow, starting at the first element of the block. Parts
// that the format does not have are null.
struct GgmlBlock {
  uint8_t* codes;         // [elements]
  float* block_scales;    // [elements / block_size]
  int8_t* group_scales;   // [elements / group_size]
  float* block_minima;    // like block_scales
  uint8_t* group_minima;  // like group_scales
};

struct GgmlType {
  uint32_t id;  // in the file
  std::string_view name;
  int64_t elements;            // per block
  size_t bytes;                // per block
  std::optional<DType> dtype;  // for plain numbers; nullopt for quantized blocks
  QuantFormat format = {};
  void (*unpack)(const uint8_t* block, const GgmlBlock& out) = nullptr;

  bool quantized() const { return !dtype; }
  // Bytes of a row of n elements; n is a multiple of `elements`.
  size_t bytes_of(int64_t n) const { return static_cast<size_t>(n / elements) * bytes; }
};

// Returns null if the type is unknown or not supported. ggml_type_name also knows types that are not
// supported.
const GgmlType* find_ggml_type(uint32_t id);
const GgmlType* find_ggml_type(std::string_view name);
std::span<const GgmlType> ggml_types();
std::string_view ggml_type_name(uint32_t id);  // "" for an unknown one
// "" if the matrix was not created by make_ggml_matrix.
std::string_view ggml_type_name(const QuantizedMatrix& matrix);

// A matrix of `rows` rows of contiguous blocks at `data`. If `order` is not empty, row i of the matrix is row
// order[i] of the data. The data must outlive the matrix.
std::unique_ptr<QuantizedMatrix> make_ggml_matrix(const GgmlType& type, std::span<const std::byte> data,
                                                  int64_t rows, int64_t cols, std::span<const int32_t> order);

}  // namespace quire
