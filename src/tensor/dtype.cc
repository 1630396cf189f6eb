#include "tensor/dtype.h"

#include <array>

namespace quire {
namespace {

struct DTypeNames {
  DType type;
  std::string_view name;
  std::string_view safetensors;
};

constexpr std::array<DTypeNames, 13> kNames = {{
    {DType::kF64, "float64", "F64"},
    {DType::kF32, "float32", "F32"},
    {DType::kBF16, "bfloat16", "BF16"},
    {DType::kF16, "float16", "F16"},
    {DType::kF8E4M3, "fp8_e4m3", "F8_E4M3"},
    {DType::kF8E5M2, "fp8_e5m2", "F8_E5M2"},
    {DType::kI64, "int64", "I64"},
    {DType::kI32, "int32", "I32"},
    {DType::kI16, "int16", "I16"},
    {DType::kI8, "int8", "I8"},
    {DType::kU8, "uint8", "U8"},
    {DType::kU8, "uint8", "F8_E8M0"},  // power-of-two exponents, stored as uint8 in other files
    {DType::kBool, "bool", "BOOL"},
}};

// An 8-bit float with kMantissa bits of mantissa whose smallest normal number is 2^kMinExponent.
template <int kMantissa, int kMinExponent>
uint8_t f32_to_f8(float v, float largest) {
  constexpr int kDropped = 23 - kMantissa;
  // Difference of the exponent biases of float32 and this format.
  constexpr uint32_t kRebias = static_cast<uint32_t>(kMinExponent - 1 + 127) << 23;
  const uint32_t u = std::bit_cast<uint32_t>(v);
  const auto sign = static_cast<uint8_t>((u >> 24) & 0x80U);
  uint32_t magnitude = u & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint8_t>(sign | 0x7fU);
  if (magnitude > std::bit_cast<uint32_t>(largest)) magnitude = std::bit_cast<uint32_t>(largest);
  if (magnitude < kRebias + (1U << 23)) {
    // Subnormal. The sum's unit in the last place is the format's smallest step, so the FPU rounds to even.
    constexpr uint32_t kShifter = static_cast<uint32_t>(kMinExponent - kMantissa + 23 + 127) << 23;
    const float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kShifter);
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - kShifter));
  }
  const uint32_t rounded = magnitude + (1U << (kDropped - 1)) - 1 + ((magnitude >> kDropped) & 1U);
  return static_cast<uint8_t>(sign | ((rounded - kRebias) >> kDropped));
}

}  // namespace

std::string_view dtype_name(DType t) {
  for (const auto& row : kNames) {
    if (row.type == t) return row.name;
  }
  return "unknown";
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const auto& row : kNames) {
    if (row.name == name || row.safetensors == name) return row.type;
  }
  return std::nullopt;
}

float f16_to_f32(uint16_t v) {
  const uint32_t sign = static_cast<uint32_t>(v & 0x8000U) << 16;
  const uint32_t exponent = (v >> 10) & 0x1fU;
  const uint32_t mantissa = v & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent == 0) {
    // Subnormal: mantissa * 2^-24, exact in float32.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
}

uint16_t f32_to_f16(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v);
  const auto sign = static_cast<uint16_t>((u >> 16) & 0x8000U);
  const uint32_t magnitude = u & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);  // rounds past 65504
  if (magnitude < 0x38800000U) {
    // Below 2^-14: a multiple of 2^-24. Adding 0.5 puts that unit in the last place, so the FPU rounds to
    // even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U));
  }
  const uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

float f8e4m3_to_f32(uint8_t v) {
  const uint32_t sign = static_cast<uint32_t>(v & 0x80U) << 24;
  if ((v & 0x7fU) == 0x7fU) return std::bit_cast<float>(sign | 0x7fc00000U);
  // Interpreted as a float16 with the same exponent field, a number is too small by 2^8.
  const float magnitude = f16_to_f32(static_cast<uint16_t>((v & 0x7fU) << 7)) * 256.0F;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

float f8e5m2_to_f32(uint8_t v) {
  return f16_to_f32(static_cast<uint16_t>(v << 8));
}

uint8_t f32_to_f8e4m3(float v) {
  return f32_to_f8<3, -6>(v, 448.0F);
}

uint8_t f32_to_f8e5m2(float v) {
  return f32_to_f8<2, -14>(v, 57344.0F);
}

}  // namespace quire
