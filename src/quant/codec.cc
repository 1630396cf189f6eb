#include "quant/codec.h"

#include <cstring>

namespace quire {

bool is_storage_dtype(DType t) {
  return t == DType::kF32 || t == DType::kBF16 || t == DType::kF16;
}

float load_f32(DType t, const void* src, int64_t i) {
  if (t == DType::kF32) return static_cast<const float*>(src)[i];
  const uint16_t v = static_cast<const uint16_t*>(src)[i];
  return t == DType::kBF16 ? bf16_to_f32(v) : f16_to_f32(v);
}

void store_f32(DType t, void* dst, int64_t i, float v) {
  if (t == DType::kF32) {
    static_cast<float*>(dst)[i] = v;
  } else {
    static_cast<uint16_t*>(dst)[i] = t == DType::kBF16 ? f32_to_bf16(v) : f32_to_f16(v);
  }
}

void decode_f32(DType t, const void* src, float* dst, int64_t n) {
  if (n <= 0) return;
  if (t == DType::kF32) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  const auto* halves = static_cast<const uint16_t*>(src);
  if (t == DType::kBF16) {
    for (int64_t i = 0; i < n; ++i) dst[i] = bf16_to_f32(halves[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i] = f16_to_f32(halves[i]);
  }
}

void encode_f32(DType t, const float* src, void* dst, int64_t n) {
  if (n <= 0) return;
  if (t == DType::kF32) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  auto* halves = static_cast<uint16_t*>(dst);
  if (t == DType::kBF16) {
    for (int64_t i = 0; i < n; ++i) halves[i] = f32_to_bf16(src[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) halves[i] = f32_to_f16(src[i]);
  }
}

}  // namespace quire
