#include "../arithmetic.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

namespace probe {
namespace {

constexpr OperandType kTypes[] = {OperandType::kBf16, OperandType::kFp16};

std::vector<uint16_t> bits(const std::vector<float>& values, OperandType type) {
  std::vector<uint16_t> out;
  for (const float value : values) out.push_back(from_float(value, type));
  return out;
}

float fused(const std::vector<float>& a, const std::vector<float>& b, float c, int fraction_bits,
            OperandType type = OperandType::kBf16) {
  return fused_dot_add(bits(a, type).data(), bits(b, type).data(), static_cast<int>(a.size()), c, type,
                       fraction_bits);
}

TEST(OperandFormat, KeepsEveryFiniteBitPattern) {
  for (const OperandType type : kTypes) {
    for (int pattern = 0; pattern < 1 << 16; ++pattern) {
      const float value = to_float(static_cast<uint16_t>(pattern), type);
      if (std::isnan(value)) continue;
      ASSERT_EQ(from_float(value, type), pattern);
    }
  }
}

TEST(OperandFormat, AgreesWithKnownValues) {
  EXPECT_EQ(to_float(0x3f80, OperandType::kBf16), 1.0F);
  EXPECT_EQ(to_float(0xc2f7, OperandType::kBf16), -123.5F);
  EXPECT_EQ(to_float(0x3c00, OperandType::kFp16), 1.0F);
  EXPECT_EQ(to_float(0x7bff, OperandType::kFp16), 65504.0F);
  EXPECT_EQ(to_float(0x0001, OperandType::kFp16), std::ldexp(1.0F, -24));
}

TEST(OperandFormat, RoundsTiesToEven) {
  EXPECT_EQ(from_float(1.0F + std::ldexp(1.0F, -8), OperandType::kBf16), 0x3f80);
  EXPECT_EQ(from_float(1.0F + 3 * std::ldexp(1.0F, -8), OperandType::kBf16), 0x3f82);
  EXPECT_EQ(from_float(65519.0F, OperandType::kFp16), 0x7bff);
  EXPECT_EQ(from_float(65520.0F, OperandType::kFp16), 0x7c00);  // infinity
  EXPECT_EQ(from_float(std::ldexp(1.5F, -24), OperandType::kFp16), 0x0002);
}

TEST(FusedDotAdd, IsExactForSmallIntegers) {
  for (const OperandType type : kTypes)
    EXPECT_EQ(fused({1, 2, 3, -4}, {5, 6, 7, 8}, 100, 25, type), 100 + 5 + 12 + 21 - 32);
}

TEST(FusedDotAdd, CutsTermsOffBelowTheLargestExponent) {
  // 2^-25 is the last bit that is kept next to an accumulator of 1. Alone it cannot change the float32 sum,
  // two of them with opposite terms can.
  const float last = std::ldexp(1.0F, -25);
  EXPECT_EQ(fused({last, -1}, {1, 1}, 1, 25), last);
  EXPECT_EQ(fused({last, -1}, {1, 1}, 1, 24), 0.0F);
}

TEST(FusedDotAdd, TruncatesTheSumTowardZero) {
  const float half_ulp = std::ldexp(1.0F, -24);
  EXPECT_EQ(fused({half_ulp, half_ulp / 2}, {1, 1}, 1, 25), 1.0F);
  EXPECT_EQ(fused({-half_ulp, -half_ulp / 2}, {1, 1}, -1, 25), -1.0F);
  EXPECT_EQ(fused({half_ulp, half_ulp}, {1, 1}, 1, 25), std::nextafter(1.0F, 2.0F));
}

TEST(FusedDotAdd, AlignsToSumsOfExponentsNotToProducts) {
  // 1.5 * 1.5 has the exponent 0 although it is larger than 2, so a term of 2^-25 is kept.
  const float last = std::ldexp(1.0F, -25);
  EXPECT_EQ(fused({1.5F, -1.5F, last}, {1.5F, 1.5F, 1}, 0, 25), last);
  EXPECT_EQ(fused({2, -2, last}, {1, 1, 1}, 0, 25), 0.0F);
}

TEST(FusedDotAdd, DoesNotDependOnTheOrderOfProducts) {
  std::vector<float> a, b;
  for (int i = 0; i < 16; ++i) {
    a.push_back(std::ldexp(1.0F + static_cast<float>(i) / 16, i * 3 % 11 - 5));
    b.push_back(i % 3 == 0 ? -1.25F : 0.75F);
  }
  const float forward = fused(a, b, 0.1F, 25);
  EXPECT_EQ(fused({a.rbegin(), a.rend()}, {b.rbegin(), b.rend()}, 0.1F, 25), forward);
}

TEST(FusedDotAdd, KeepsSubnormalNumbers) {
  const float smallest = std::ldexp(1.0F, -149);
  EXPECT_EQ(fused({0}, {0}, smallest, 25), smallest);
  EXPECT_EQ(fused({std::ldexp(1.0F, -24)}, {1}, 0, 25, OperandType::kFp16), std::ldexp(1.0F, -24));
}

TEST(FusedDotAdd, PropagatesInfinitiesAndNan) {
  EXPECT_EQ(fused({INFINITY}, {2}, 1, 25), INFINITY);
  EXPECT_TRUE(std::isnan(fused({INFINITY}, {0}, 1, 25)));
  EXPECT_TRUE(std::isnan(fused({1}, {1}, NAN, 25)));
}

TEST(DotChain, DependsOnTheProductsPerSum) {
  // The first 8 products cancel the last bit of the second 8 only if both are in one sum.
  std::vector<float> a(16, 0.0F), b(16, 1.0F);
  a[0] = 1;
  a[8] = a[9] = std::ldexp(1.0F, -24);
  const auto x = bits(a, OperandType::kBf16), y = bits(b, OperandType::kBf16);
  EXPECT_EQ(dot_chain(x.data(), y.data(), 16, OperandType::kBf16, {25, 16}), std::nextafter(1.0F, 2.0F));
  a = std::vector<float>(16, 0.0F);
  a[0] = 1;
  a[7] = a[8] = std::ldexp(1.0F, -24);
  const auto split = bits(a, OperandType::kBf16);
  EXPECT_EQ(dot_chain(split.data(), y.data(), 16, OperandType::kBf16, {25, 16}), std::nextafter(1.0F, 2.0F));
  EXPECT_EQ(dot_chain(split.data(), y.data(), 16, OperandType::kBf16, {25, 8}), 1.0F);
}

}  // namespace
}  // namespace probe
