// The types that tensors of a GGUF file have: plain numbers, and blocks of codes with their scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "quant/coded_matrix.h"
#include "tensor/dtype.h"

namespace quire {

// Where a block's parts go: of CodedRow, from the block's first element on. What a format lacks is null.
struct GgmlBlock {
  uint8_t* codes;         // [elements]
  float* block_scales;    // [elements / block_size]
  int8_t* group_scales;   // [elements / group_size]
  float* block_minima;    // as block_scales
  uint8_t* group_minima;  // as group_scales
};

struct GgmlType {
  uint32_t id;  // in the file
  std::string_view name;
  int64_t elements;            // of a block
  size_t bytes;                // of a block
  std::optional<DType> dtype;  // plain numbers; none: blocks of codes
  CodedFormat format = {};
  void (*unpack)(const uint8_t* block, const GgmlBlock& out) = nullptr;

  bool coded() const { return !dtype; }
  // Of a row of n elements, a multiple of `elements`.
  size_t bytes_of(int64_t n) const { return static_cast<size_t>(n / elements) * bytes; }
};

// Null: a number that is not known or not supported; ggml_type_name names those that are not supported.
const GgmlType* find_ggml_type(uint32_t id);
const GgmlType* find_ggml_type(std::string_view name);
std::span<const GgmlType> ggml_types();
std::string_view ggml_type_name(uint32_t id);  // "" for an unknown one
// "" for a matrix that make_ggml_matrix did not make.
std::string_view ggml_type_name(const CodedMatrix& matrix);

// Rows [0, n) of a matrix of blocks that lie one behind the other from `data` on. Where `rows` is not empty,
// row i of the matrix is row rows[i] of the data. The data must outlive it.
std::unique_ptr<CodedMatrix> make_ggml_matrix(const GgmlType& type, std::span<const std::byte> data,
                                              int64_t rows, int64_t cols, std::span<const int32_t> order);

}  // namespace quire
