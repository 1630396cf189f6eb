// Float activations in int8 slices: three slices are as accurate as float32 relative to the largest of a
// group, two as 16 bits.
#include "quant/activation_slices.h"

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
  explicit Split(const std::vector<float>& x, int num_slices = kFloatSlices)
      : size(x.size()), count(num_slices), slices(static_cast<size_t>(count) * size) {
    const auto n = static_cast<int64_t>(size);
    scale = slice_activations(x.data(), n, count, slices.data(), n);
  }
  std::vector<int32_t> of(size_t i) const {
    std::vector<int32_t> own;
    for (size_t at = i; at < slices.size(); at += size) own.push_back(slices[at]);
    return own;
  }
  double value(size_t i) const {
    double whole = 0;
    for (const int32_t d : of(i)) whole = whole * double{kSliceBase} + d;
    return whole * double{scale};
  }
  size_t size;
  int count;
  std::vector<int8_t> slices;
  float scale = 0;
};

TEST(ActivationSlices, MeetTheDocumentedAccuracy) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 2000; ++round) {
    std::vector<float> x(kCount);
    for (float& v : x) v = std::ldexp(normal(rng), round % 80 - 40);
    float largest = 0;
    for (const float v : x) largest = std::max(largest, std::fabs(v));
    for (const auto& [count, bits] : {std::pair(kFloatSlices, 22.9), std::pair(kInt16Slices, 15.9)}) {
      const Split split(x, count);
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_NEAR(split.value(i), x[i], double{largest} * std::exp2(-bits))
            << i << " of round " << round << ", " << count << " slices";
        for (const int32_t d : split.of(i)) EXPECT_LE(std::abs(d), 127);
      }
    }
  }
}

TEST(ActivationSlices, AllIntegersFitThreeSlices) {
  // Also integers near the rounding boundaries of slices.
  const float largest = largest_of_slices(kFloatSlices);
  std::vector<float> x = {largest};
  for (float v = 0; v < largest; v += 31337.0F) x.push_back(v);
  for (int32_t h = -126; h <= 126; ++h) {
    for (const float offset : {0.5F, -0.5F, 0.498F})
      x.push_back(std::round((static_cast<float>(h) + offset) * kSliceBase * kSliceBase));
  }
  const Split split(x);
  ASSERT_EQ(split.scale, 1.0F);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(split.value(i), double{x[i]});
    for (const int32_t d : split.of(i)) EXPECT_LE(std::abs(d), 127) << x[i];
    EXPECT_EQ(join_slices(split.of(i).data(), kFloatSlices), x[i]);
  }
}

TEST(ActivationSlices, EveryIntegerFitsTwoSlices) {
  std::vector<float> x;
  for (float v = -largest_of_slices(2); v <= largest_of_slices(2); ++v) x.push_back(v);
  const Split split(x, kInt16Slices);
  ASSERT_EQ(split.scale, 1.0F);
  for (size_t i = 0; i < x.size(); ++i) {
    for (const int32_t d : split.of(i)) EXPECT_LE(std::abs(d), 127) << x[i];
    EXPECT_EQ(join_slices(split.of(i).data(), kInt16Slices), x[i]);
  }
}

TEST(ActivationSlices, TinyGroupsAreZeroAndNonFiniteGroupsAreNan) {
  const float largest = std::numeric_limits<float>::max();
  for (const int count : {kFloatSlices, kInt16Slices}) {
    EXPECT_EQ(Split({1e-31F, -1e-33F}, count).scale, 0.0F);
    EXPECT_NEAR(Split({largest, 1.0F}, count).value(0) / double{largest}, 1.0, 1e-7);
    for (const float flaw : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      const Split split({1.0F, flaw, 2.0F}, count);
      EXPECT_TRUE(std::isnan(split.scale));
      EXPECT_TRUE(std::ranges::all_of(split.slices, [](int8_t d) { return d == 0; }));
    }
  }
}

}  // namespace
}  // namespace quire
