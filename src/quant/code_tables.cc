#include "quant/code_tables.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tensor/dtype.h"

namespace quire {
namespace {

// Floats without infinities: kMantissa bits of mantissa, then the exponent, then the sign.
template <size_t kCodes, int kMantissa, int kBias>
std::array<float, kCodes> small_floats() {
  std::array<float, kCodes> values;
  for (size_t code = 0; code < kCodes; ++code) {
    const auto magnitude = static_cast<int>(code % (kCodes / 2));
    const int exponent = magnitude >> kMantissa;
    const int mantissa = magnitude & ((1 << kMantissa) - 1);
    const int whole = exponent == 0 ? mantissa : mantissa + (1 << kMantissa);
    const float value = std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - kBias - kMantissa);
    values[code] = code < kCodes / 2 ? value : -value;
  }
  return values;
}

}  // namespace

std::span<const float> e4m3_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> v;
    for (size_t i = 0; i < v.size(); ++i) v[i] = f8e4m3_to_f32(static_cast<uint8_t>(i));
    return v;
  }();
  return values;
}

std::span<const float> e8m0_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> v;
    v[0] = std::bit_cast<float>(uint32_t{1} << 22);  // 2^-127, a denormal number
    for (uint32_t i = 1; i < 255; ++i) v[i] = std::bit_cast<float>(i << 23);
    v[255] = std::numeric_limits<float>::quiet_NaN();
    return v;
  }();
  return values;
}

std::span<const float> e2m1_values() {
  static constexpr std::array<float, 16> kValues = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                                    -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
  return kValues;
}

std::span<const float> e2m3_values() {
  static const std::array<float, 64> values = small_floats<64, 3, 1>();
  return values;
}

std::span<const float> e3m2_values() {
  static const std::array<float, 64> values = small_floats<64, 2, 3>();
  return values;
}

std::span<const float> nf4_values() {
  static constexpr std::array<float, 16> kValues = {
      -1.0F,
      -0.6961928009986877F,
      -0.5250730514526367F,
      -0.39491748809814453F,
      -0.28444138169288635F,
      -0.18477343022823334F,
      -0.09105003625154495F,
      0.0F,
      0.07958029955625534F,
      0.16093020141124725F,
      0.24611230194568634F,
      0.33791524171829224F,
      0.44070982933044434F,
      0.5626170039176941F,
      0.7229568362236023F,
      1.0F,
  };
  return kValues;
}

std::span<const float> fp4_values() {
  static constexpr std::array<float, 16> kValues = {
      0.0F, 0.0625F / 12,  8.0F / 12,  1.0F,  4.0F / 12,  0.5F,  2.0F / 12,  0.25F,
      0.0F, -0.0625F / 12, -8.0F / 12, -1.0F, -4.0F / 12, -0.5F, -2.0F / 12, -0.25F};
  return kValues;
}

}  // namespace quire
