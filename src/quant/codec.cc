#include "quant/codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace quire {

bool is_storage_dtype(DType t) {
  return t == DType::kF32 || t == DType::kBF16 || t == DType::kF16;
}

bool is_kv_dtype(DType t) {
  return is_storage_dtype(t) || t == DType::kF8E4M3 || t == DType::kF8E5M2 || t == DType::kI8;
}

namespace {

// f(elements, function that converts one of them to float32).
template <typename F>
auto with_elements(DType t, const void* src, F f) {
  switch (t) {
    case DType::kF32:
      return f(static_cast<const float*>(src), [](float v) { return v; });
    case DType::kBF16:
      return f(static_cast<const uint16_t*>(src), bf16_to_f32);
    case DType::kF8E4M3:
      return f(static_cast<const uint8_t*>(src), f8e4m3_to_f32);
    case DType::kF8E5M2:
      return f(static_cast<const uint8_t*>(src), f8e5m2_to_f32);
    case DType::kI8:
      return f(static_cast<const int8_t*>(src), [](int8_t v) { return static_cast<float>(v); });
    default:
      return f(static_cast<const uint16_t*>(src), f16_to_f32);
  }
}

}  // namespace

float load_f32(DType t, const void* src, int64_t i) {
  return with_elements(t, src, [&](const auto* elements, auto convert) { return convert(elements[i]); });
}

void load_strided_f32(DType t, const void* src, int64_t first, int64_t stride, int64_t n, float* dst) {
  with_elements(t, src, [&](const auto* elements, auto convert) {
    for (int64_t i = 0; i < n; ++i) dst[i] = convert(elements[first + i * stride]);
  });
}

void store_f32(DType t, void* dst, int64_t i, float v) {
  switch (t) {
    case DType::kF32:
      static_cast<float*>(dst)[i] = v;
      return;
    case DType::kBF16:
      static_cast<uint16_t*>(dst)[i] = f32_to_bf16(v);
      return;
    case DType::kF8E4M3:
      static_cast<uint8_t*>(dst)[i] = f32_to_f8e4m3(v);
      return;
    case DType::kF8E5M2:
      static_cast<uint8_t*>(dst)[i] = f32_to_f8e5m2(v);
      return;
    case DType::kI8:
      static_cast<int8_t*>(dst)[i] = int8_code(v, 1.0F);
      return;
    default:
      static_cast<uint16_t*>(dst)[i] = f32_to_f16(v);
  }
}

float int8_scale(const float* x, int64_t n) {
  float largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(x[i])) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::fabs(x[i]));
  }
  return largest / 127.0F;
}

int8_t int8_code(float v, float scale) {
  if (!(scale > 0.0F) || std::isnan(v)) return 0;
  // A denormal scale is itself rounded, so the quotient may exceed 127.
  return static_cast<int8_t>(std::clamp(std::nearbyint(v / scale), -127.0F, 127.0F));
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
