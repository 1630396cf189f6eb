// The KV cache as ops see it: where the keys and values of one layer are stored, and how many bytes they
// take.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace quire {

// One layer's part of the KV pool. A block holds the keys, then the values, of block_size tokens. The order
// of elements inside a block is private to the op table; its size is not, so whole blocks can be copied as
// bytes. int8 has one float32 scale per token and KV head: an element is its int8 value times the scale. The
// scales of the keys follow the keys, those of the values follow the values. Every part starts at a multiple
// of 4 bytes.
struct KvCacheView {
  std::byte* base = nullptr;  // block 0 of the pool
  int64_t block_stride = 0;   // bytes from one block to the next
  int64_t layer_offset = 0;   // bytes from the start of a block to this layer's keys
  DType dtype = DType::kF32;  // is_kv_dtype (quant/codec.h)
  int32_t block_size = 0;     // tokens
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;         // dimensions of a key
  int32_t value_dim = 0;        // dimensions of a value, at most head_dim; 0 = head_dim
  bool values_in_keys = false;  // only keys are stored; a value is the last value_dim dimensions of its key

  int32_t value_size() const { return value_dim > 0 ? value_dim : head_dim; }
};

// Whether keys and values of that type have scales.
inline bool kv_has_scales(DType dtype) {
  return dtype == DType::kI8;
}

// Bytes per block for the elements of one layer's keys, or of its values, with `dim` dimensions. Scales, if
// the type has any, follow: [num_kv_heads, block_size] float32.
inline int64_t kv_element_bytes(DType dtype, int32_t block_size, int32_t num_kv_heads, int32_t dim) {
  const int64_t bytes = int64_t{block_size} * num_kv_heads * dim * static_cast<int64_t>(dtype_size(dtype));
  return kv_has_scales(dtype) ? (bytes + 3) / 4 * 4 : bytes;
}

// The same, including the scales.
inline int64_t kv_part_bytes(DType dtype, int32_t block_size, int32_t num_kv_heads, int32_t dim) {
  const int64_t scales =
      kv_has_scales(dtype) ? int64_t{block_size} * num_kv_heads * static_cast<int64_t>(sizeof(float)) : 0;
  return kv_element_bytes(dtype, block_size, num_kv_heads, dim) + scales;
}

// Bytes per block for the keys and values of one layer. value_dim 0 = head_dim.
inline int64_t kv_bytes_per_block(DType dtype, int32_t block_size, int32_t num_kv_heads, int32_t head_dim,
                                  int32_t value_dim = 0) {
  return kv_part_bytes(dtype, block_size, num_kv_heads, head_dim) +
         kv_part_bytes(dtype, block_size, num_kv_heads, value_dim > 0 ? value_dim : head_dim);
}

}  // namespace quire
