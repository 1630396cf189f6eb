// Rounding of groups to integers.
#include "quant/int_rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/thread_pool.h"

namespace quire {
namespace {

std::vector<float> random_weights(size_t n, uint32_t seed = 1) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0F, 0.05F);
  std::vector<float> w(n);
  for (float& v : w) v = normal(rng);
  return w;
}

double error_of(const IntRounding& how, const IntGroup& group, std::span<const float> w,
                std::span<const float> importance = {}) {
  double sum = 0.0;
  for (size_t i = 0; i < w.size(); ++i) {
    const double d = w[i] - group.value(code_of(how, group, w[i]));
    sum += (importance.empty() ? 1.0 : importance[i]) * d * d;
  }
  return sum;
}

TEST(IntRounding, SearchIsNotWorseThanFittingTheLargestWeight) {
  for (const int32_t bits : {2, 3, 4, 8}) {
    for (const bool zero_points : {false, true}) {
      for (uint32_t seed = 0; seed < 20; ++seed) {
        const auto w = random_weights(64, seed);
        const IntRounding searched{.bits = bits, .zero_points = zero_points};
        IntRounding plain = searched;
        plain.largest_fits = true;
        const double best = error_of(searched, choose_group(searched, w), w);
        // The least-squares scale is not always better, because values are rounded again.
        EXPECT_LE(best, 1.02 * error_of(plain, choose_group(plain, w), w)) << bits << " " << zero_points;
      }
    }
  }
}

TEST(IntRounding, RepresentableWeightsAreExact) {
  const IntRounding how{.bits = 4};
  std::vector<float> w;
  for (int code = -8; code < 8; ++code) w.push_back(0.25F * static_cast<float>(code));
  const IntGroup group = choose_group(how, w);
  for (const float v : w) EXPECT_EQ(group.value(code_of(how, group, v)), v);
}

TEST(IntRounding, ScalesAreRoundedToTheirStorageType) {
  const auto w = random_weights(128);
  const IntGroup half = choose_group({.bits = 4, .scales = DType::kF16}, w);
  EXPECT_EQ(half.scale, f16_to_f32(f32_to_f16(half.scale)));
  const IntGroup bfloat = choose_group({.bits = 4, .scales = DType::kBF16}, w);
  EXPECT_EQ(bfloat.scale, bf16_to_f32(f32_to_bf16(bfloat.scale)));
}

TEST(IntRounding, ZeroWeightsStayZero) {
  const std::vector<float> w(32, 0.0F);
  for (const bool zero_points : {false, true}) {
    const IntRounding how{.bits = 4, .zero_points = zero_points};
    const IntGroup group = choose_group(how, w);
    EXPECT_EQ(group.value(code_of(how, group, 0.0F)), 0.0F);
  }
}

TEST(IntRounding, ZeroPointsImproveOneSidedWeights) {
  auto w = random_weights(128);
  for (float& v : w) v = std::fabs(v);
  const IntRounding symmetric{.bits = 4};
  const IntRounding with_zeros{.bits = 4, .zero_points = true};
  EXPECT_LT(error_of(with_zeros, choose_group(with_zeros, w), w),
            0.5 * error_of(symmetric, choose_group(symmetric, w), w));
}

TEST(IntRounding, ImportanceReducesTheErrorOfImportantWeights) {
  const auto w = random_weights(64, 3);
  std::vector<float> importance(64, 1.0F);
  for (size_t i = 0; i < 8; ++i) importance[i] = 1000.0F;
  const IntRounding how{.bits = 3};
  EXPECT_LT(error_of(how, choose_group(how, w, importance), w, importance),
            error_of(how, choose_group(how, w), w, importance));
}

TEST(IntRounding, MatrixMatchesItsGroupsForAnyNumberOfThreads) {
  const int64_t n = 5;
  const int64_t k = 80;  // the last group has fewer than 32 columns
  const auto w = random_weights(static_cast<size_t>(n * k));
  const IntRounding how{.bits = 4, .zero_points = true};
  ThreadPool one(1);
  ThreadPool three(3);
  const IntMatrix a = round_to_nearest(one, how, w, n, k, 32);
  const IntMatrix b = round_to_nearest(three, how, w, n, k, 32);
  EXPECT_EQ(a.codes, b.codes);
  ASSERT_EQ(a.num_groups(), 3);
  const auto last = std::span(w).subspan(2 * k + 64, 16);
  const IntGroup group = choose_group(how, last);
  EXPECT_EQ(a.group(2, 2).scale, group.scale);
  EXPECT_EQ(a.group(2, 2).zero_point, group.zero_point);
  std::vector<float> row(static_cast<size_t>(k));
  a.decode_row(2, row);
  for (size_t i = 0; i < last.size(); ++i) EXPECT_EQ(row[64 + i], group.value(code_of(how, group, last[i])));
}

}  // namespace
}  // namespace quire
