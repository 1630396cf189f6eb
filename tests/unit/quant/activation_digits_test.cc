// Float activations in digits: as exact as float32 beside the largest of a group.
#include "quant/activation_digits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace quire {
namespace {

constexpr int64_t kCount = 128;

struct Split {
  explicit Split(const std::vector<float>& x) : size(x.size()), digits(kFloatDigits * x.size()) {
    const auto n = static_cast<int64_t>(x.size());
    scale = split_activations(x.data(), n, digits.data(), n);
  }
  std::array<int32_t, kFloatDigits> of(size_t i) const {
    return {digits[i], digits[size + i], digits[2 * size + i]};
  }
  double value(size_t i) const {
    double whole = 0;
    for (const int32_t d : of(i)) whole = whole * double{kDigitBase} + d;
    return whole * double{scale};
  }
  size_t size;
  std::vector<int8_t> digits;
  float scale = 0;
};

TEST(ActivationDigits, AreAsExactAsTheyAreSaidToBe) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 2000; ++round) {
    std::vector<float> x(kCount);
    for (float& v : x) v = std::ldexp(normal(rng), round % 80 - 40);
    const Split split(x);
    float largest = 0;
    for (const float v : x) largest = std::max(largest, std::fabs(v));
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(split.value(i), x[i], double{largest} * std::exp2(-22.9)) << i << " of round " << round;
      for (const int32_t d : split.of(i)) EXPECT_LE(std::abs(d), 127);
    }
  }
}

TEST(ActivationDigits, AllWholeNumbersFit) {
  // Each within rounding of a digit's border too.
  std::vector<float> x = {kLargestDigits};
  for (float v = 0; v < kLargestDigits; v += 31337.0F) x.push_back(v);
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

TEST(ActivationDigits, WhatIsTinyIsZeroAndWhatIsNotFiniteIsNaN) {
  EXPECT_EQ(Split({1e-31F, -1e-33F}).scale, 0.0F);
  const float largest = std::numeric_limits<float>::max();
  EXPECT_NEAR(Split({largest, 1.0F}).value(0) / double{largest}, 1.0, 1e-7);
  for (const float flaw : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    const Split split({1.0F, flaw, 2.0F});
    EXPECT_TRUE(std::isnan(split.scale));
    EXPECT_TRUE(std::ranges::all_of(split.digits, [](int8_t d) { return d == 0; }));
  }
}

}  // namespace
}  // namespace quire
