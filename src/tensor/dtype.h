// Number formats of single elements, and their conversions. Block formats of quantized weights are in quant/.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

enum class DType : uint8_t { kF64, kF32, kBF16, kF16, kF8E4M3, kF8E5M2, kI64, kI32, kI16, kI8, kU8, kBool };

// Bytes of one element.
constexpr size_t dtype_size(DType t) {
  switch (t) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
    case DType::kI16:
      return 2;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

std::string_view dtype_name(DType t);                         // "float32", "bfloat16", "fp8_e4m3", ...
std::optional<DType> dtype_from_name(std::string_view name);  // the same, and safetensors' "F32", "BF16", ...

inline float bf16_to_f32(uint16_t v) {
  return std::bit_cast<float>(static_cast<uint32_t>(v) << 16);
}

// Round to nearest even; NaN stays NaN.
inline uint16_t f32_to_bf16(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v);
  if ((u & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((u >> 16) | 0x40U);
  return static_cast<uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
}

float f16_to_f32(uint16_t v);
uint16_t f32_to_f16(float v);  // round to nearest even

// The 8-bit floats of the Open Compute Project. e4m3: 3 bits of mantissa, no infinity, at most 448. e5m2: 2
// bits, the upper half of a float16, at most 57344 besides infinity.
float f8e4m3_to_f32(uint8_t v);
float f8e5m2_to_f32(uint8_t v);
// Round to nearest even. What is larger than the largest finite number becomes that number, infinity too; NaN
// stays NaN.
uint8_t f32_to_f8e4m3(float v);
uint8_t f32_to_f8e5m2(float v);

}  // namespace quire
