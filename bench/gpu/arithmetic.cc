#include "arithmetic.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace probe {
namespace {

struct Format {
  int fraction_bits;
  int exponent_bits;
};

constexpr Format format_of(OperandType type) {
  return type == OperandType::kBf16 ? Format{7, 8} : Format{10, 5};
}
constexpr Format kFloat32{23, 8};

// significand * 2^(exponent - fraction bits of the format). The exponent of zero is that of the smallest
// normal float32 number, in every format: a zero factor takes part in the alignment with this exponent.
struct Unpacked {
  int64_t significand;
  int exponent;
};

Unpacked unpack(uint32_t bits, Format format) {
  const uint32_t fraction = bits & ((1U << format.fraction_bits) - 1);
  const auto biased = static_cast<int>(bits >> format.fraction_bits & ((1U << format.exponent_bits) - 1));
  const bool negative = bits >> (format.fraction_bits + format.exponent_bits) & 1;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  if (biased == 0 && fraction == 0) return {0, -126};
  const int64_t significand = biased == 0 ? fraction : fraction | 1U << format.fraction_bits;
  return {negative ? -significand : significand, std::max(biased, 1) - bias};
}

// value * 2^shift, rounded toward zero.
int64_t scale(int64_t value, int shift) {
  if (shift >= 0) return value * (int64_t{1} << shift);
  return shift < -62 ? 0 : value / (int64_t{1} << -shift);
}

// sum * 2^exponent, rounded toward zero to float32.
float truncate_to_float(int64_t sum, int exponent) {
  const int64_t magnitude = std::abs(sum);
  int excess = 0;
  while (magnitude >> excess >= int64_t{1} << 24) ++excess;
  excess = std::max(excess, -149 - exponent);
  return std::ldexp(static_cast<float>(scale(sum, -excess)), exponent + excess);
}

}  // namespace

float to_float(uint16_t bits, OperandType type) {
  const Format format = format_of(type);
  const int all_ones = (1 << format.exponent_bits) - 1;
  if ((bits >> format.fraction_bits & all_ones) == all_ones) {
    const float sign = bits >> 15 ? -1.0F : 1.0F;
    return (bits & ((1 << format.fraction_bits) - 1)) != 0 ? NAN : sign * INFINITY;
  }
  const Unpacked x = unpack(bits, format);
  const float value = std::ldexp(static_cast<float>(x.significand), x.exponent - format.fraction_bits);
  return x.significand == 0 && bits >> 15 ? -0.0F : value;
}

uint16_t from_float(float value, OperandType type) {
  const Format format = format_of(type);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 1 << 15 : 0);
  const int all_ones = (1 << format.exponent_bits) - 1;
  if (std::isnan(value))
    return static_cast<uint16_t>(sign | all_ones << format.fraction_bits | 1 << (format.fraction_bits - 1));
  if (value == 0) return sign;
  const int exponent = std::isinf(value) ? bias + 1 : std::max(std::ilogb(value), 1 - bias);
  // A carry out of the fraction increments the exponent field, up to infinity.
  const double ulps = std::nearbyint(std::ldexp(std::fabs(double{value}), format.fraction_bits - exponent));
  const double largest = all_ones * std::ldexp(1.0, format.fraction_bits);
  const double field =
      std::isinf(value) ? largest : ulps + (exponent + bias - 1) * std::ldexp(1.0, format.fraction_bits);
  return static_cast<uint16_t>(sign | static_cast<int>(std::min(field, largest)));
}

float fused_dot_add(const uint16_t* a, const uint16_t* b, int count, float c, OperandType type,
                    int fraction_bits) {
  constexpr int kMaxProducts = 32;
  const Format format = format_of(type);
  uint32_t c_bits = 0;
  std::memcpy(&c_bits, &c, sizeof(c));
  const Unpacked accumulator = unpack(c_bits, kFloat32);
  Unpacked product[kMaxProducts];
  int largest = accumulator.exponent;
  const auto special = static_cast<uint16_t>(((1 << format.exponent_bits) - 1) << format.fraction_bits);
  bool finite = std::isfinite(c);
  for (int i = 0; i < count; ++i) {
    finite = finite && (a[i] & special) != special && (b[i] & special) != special;
    const Unpacked x = unpack(a[i], format), y = unpack(b[i], format);
    product[i] = {x.significand * y.significand, x.exponent + y.exponent};
    largest = std::max(largest, product[i].exponent);
  }
  if (!finite) {
    double sum = c;
    for (int i = 0; i < count; ++i) sum += double{to_float(a[i], type)} * to_float(b[i], type);
    return static_cast<float>(sum);
  }
  const int unit = largest - fraction_bits;  // exponent of the last bit that is kept
  int64_t sum = scale(accumulator.significand, accumulator.exponent - kFloat32.fraction_bits - unit);
  for (int i = 0; i < count; ++i)
    sum += scale(product[i].significand, product[i].exponent - 2 * format.fraction_bits - unit);
  return truncate_to_float(sum, unit);
}

float dot_chain(const uint16_t* a, const uint16_t* b, int k, OperandType type, const DotModel& model) {
  float sum = 0;
  for (int i = 0; i < k; i += model.products_per_sum)
    sum = fused_dot_add(a + i, b + i, model.products_per_sum, sum, type, model.fraction_bits);
  return sum;
}

}  // namespace probe
