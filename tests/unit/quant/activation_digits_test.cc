// Float activations in digits: three are as exact as float32 beside the largest of a group, two as 16 bits.
#include "quant/activation_digits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace quire {
namespace {

constexpr int64_t kCount = 128;

struct Split {
  explicit Split(const std::vector<float>& x, int num_digits = kFloatDigits)
      : size(x.size()), count(num_digits), digits(static_cast<size_t>(count) * size) {
    const auto n = static_cast<int64_t>(size);
    scale = split_activations(x.data(), n, count, digits.data(), n);
  }
  std::vector<int32_t> of(size_t i) const {
    std::vector<int32_t> own;
    for (size_t at = i; at < digits.size(); at += size) own.push_back(digits[at]);
    return own;
  }
  double value(size_t i) const {
    double whole = 0;
    for (const int32_t d : of(i)) whole = whole * double{kDigitBase} + d;
    return whole * double{scale};
  }
  size_t size;
  int count;
  std::vector<int8_t> digits;
  float scale = 0;
};

TEST(ActivationDigits, AreAsExactAsTheyAreSaidToBe) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 2000; ++round) {
    std::vector<float> x(kCount);
    for (float& v : x) v = std::ldexp(normal(rng), round % 80 - 40);
    float largest = 0;
    for (const float v : x) largest = std::max(largest, std::fabs(v));
    for (const auto& [count, bits] : {std::pair(kFloatDigits, 22.9), std::pair(kInt16Digits, 15.9)}) {
      const Split split(x, count);
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_NEAR(split.value(i), x[i], double{largest} * std::exp2(-bits))
            << i << " of round " << round << ", " << count << " digits";
        for (const int32_t d : split.of(i)) EXPECT_LE(std::abs(d), 127);
      }
    }
  }
}

TEST(ActivationDigits, AllWholeNumbersFit) {
  // Each within rounding of a digit's border too.
  const float largest = largest_of_digits(kFloatDigits);
  std::vector<float> x = {largest};
  for (float v = 0; v < largest; v += 31337.0F) x.push_back(v);
  for (int32_t h = -126; h <= 126; ++h) {
    for (const float border : {0.5F, -0.5F, 0.498F})
      x.push_back(std::round((static_cast<float>(h) + border) * kDigitBase * kDigitBase));
  }
  const Split split(x);
  ASSERT_EQ(split.scale, 1.0F);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(split.value(i), double{x[i]});
    for (const int32_t d : split.of(i)) EXPECT_LE(std::abs(d), 127) << x[i];
    EXPECT_EQ(join_digits(split.of(i).data(), kFloatDigits), x[i]);
  }
}

TEST(ActivationDigits, AllWholeNumbersOfTwoDigitsFit) {
  std::vector<float> x;
  for (float v = -largest_of_digits(2); v <= largest_of_digits(2); ++v) x.push_back(v);
  const Split split(x, kInt16Digits);
  ASSERT_EQ(split.scale, 1.0F);
  for (size_t i = 0; i < x.size(); ++i) {
    for (const int32_t d : split.of(i)) EXPECT_LE(std::abs(d), 127) << x[i];
    EXPECT_EQ(join_digits(split.of(i).data(), kInt16Digits), x[i]);
  }
}

TEST(ActivationDigits, WhatIsTinyIsZeroAndWhatIsNotFiniteIsNaN) {
  const float largest = std::numeric_limits<float>::max();
  for (const int count : {kFloatDigits, kInt16Digits}) {
    EXPECT_EQ(Split({1e-31F, -1e-33F}, count).scale, 0.0F);
    EXPECT_NEAR(Split({largest, 1.0F}, count).value(0) / double{largest}, 1.0, 1e-7);
    for (const float flaw : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      const Split split({1.0F, flaw, 2.0F}, count);
      EXPECT_TRUE(std::isnan(split.scale));
      EXPECT_TRUE(std::ranges::all_of(split.digits, [](int8_t d) { return d == 0; }));
    }
  }
}

}  // namespace
}  // namespace quire
