// Reference conversions between float32 and the storage formats of weights and KV blocks. Kernels are tested
// against these plain, slow implementations. Stateless; thread-safe.
#pragma once

#include <cstdint>

#include "quant/weight_format.h"
#include "tensor/dtype.h"

namespace quire {

// Whether weights or tables may be stored as `t`: float32, bfloat16, float16.
bool is_storage_dtype(DType t);
// Whether keys and values may be stored as `t`: additionally fp8_e4m3, fp8_e5m2, and int8 with scales.
bool is_kv_dtype(DType t);

// Element i of an array stored as `t` (is_kv_dtype). For int8, the integer without its scale. Exact.
float load_f32(DType t, const void* src, int64_t i);
// dst[i] = element first + i * stride of src as float32, for i in [0, n). Takes every type that load_f32
// takes.
void load_strided_f32(DType t, const void* src, int64_t first, int64_t stride, int64_t n, float* dst);
// Stores v as element i, rounded to nearest even. 8-bit formats saturate.
void store_f32(DType t, void* dst, int64_t i, float v);

// int8 with a scale: n values that share a scale are scale * code, code in [-127, 127], scale = max |x| /
// 127. int8_scale returns the scale of x[0, n): 0 if all values are 0, NaN if one of them is not finite.
float int8_scale(const float* x, int64_t n);
// The code of v: v / scale rounded to nearest even; 0 if the scale is 0 or NaN.
int8_t int8_code(float v, float scale);

// dst[0, n) = src[0, n) as float32.
void decode_f32(DType t, const void* src, float* dst, int64_t n);
// dst[0, n) = src[0, n) as `t`, rounded to nearest even.
void encode_f32(DType t, const float* src, void* dst, int64_t n);

}  // namespace quire
