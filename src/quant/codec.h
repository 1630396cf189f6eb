// Reference conversions between float32 and the formats that weights and KV blocks are stored in. Slow and
// plain: kernels are tested against them. Stateless; any thread.
#pragma once

#include <cstdint>

#include "quant/weight_format.h"
#include "tensor/dtype.h"

namespace quire {

// Whether weights, KV blocks or tables may be stored as `t`: float32, bfloat16, float16.
bool is_storage_dtype(DType t);

// Element i of an array stored as `t` (is_storage_dtype). Exact.
float load_f32(DType t, const void* src, int64_t i);
// Stores v as element i, rounded to nearest even.
void store_f32(DType t, void* dst, int64_t i, float v);

// dst[0, n) = src[0, n) as float32.
void decode_f32(DType t, const void* src, float* dst, int64_t n);
// dst[0, n) = src[0, n) as `t`, rounded to nearest even.
void encode_f32(DType t, const float* src, void* dst, int64_t n);

}  // namespace quire
