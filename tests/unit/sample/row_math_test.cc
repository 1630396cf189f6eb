#include "sample/row_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace quire {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

std::vector<float> normal_row(size_t size, float spread, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> row(size);
  std::generate(row.begin(), row.end(), [&] { return normal(generator); });
  return row;
}

// Lengths around the group of 16 and the block of 256, to test partial groups and blocks.
const std::vector<size_t> kSizes = {1, 15, 16, 17, 255, 256, 257, 1000, 4096, 70001};

TEST(RowMath, BlockMaximaAndFindMaxMatchAScan) {
  for (const size_t size : kSizes) {
    const std::vector<float> row = normal_row(size, 3.0F, static_cast<uint32_t>(size));
    std::vector<float> maxima(num_blocks(size));
    const RowMax top = block_maxima(row, maxima.data());
    EXPECT_TRUE(top.is_numbers);
    EXPECT_EQ(top.max, *std::max_element(row.begin(), row.end()));
    for (size_t block = 0; block < maxima.size(); ++block) {
      const auto begin = row.begin() + static_cast<ptrdiff_t>(block * kRowBlock);
      const auto end = row.begin() + static_cast<ptrdiff_t>(std::min(size, (block + 1) * kRowBlock));
      EXPECT_EQ(maxima[block], *std::max_element(begin, end));
    }
    EXPECT_EQ(find_max(row, maxima.data(), top.max),
              static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin()));
  }
}

TEST(RowMath, DetectsNanAndInfinityAtEveryPosition) {
  for (const size_t size : {size_t{1}, size_t{17}, size_t{300}}) {
    std::vector<float> maxima(num_blocks(size));
    for (size_t i = 0; i < size; ++i) {
      std::vector<float> row(size, 1.0F);
      row[i] = kNotANumber;
      EXPECT_FALSE(block_maxima(row, maxima.data()).is_numbers) << i;
      row[i] = kInfinite;
      EXPECT_FALSE(block_maxima(row, maxima.data()).is_numbers) << i;
      row[i] = -kInfinite;
      EXPECT_TRUE(block_maxima(row, maxima.data()).is_numbers) << i;
    }
  }
}

TEST(RowMath, SumOfExponentialsIsAccurate) {
  for (const size_t size : kSizes) {
    for (const float scale : {0.5F, 1.0F, 3.0F}) {
      const std::vector<float> row = normal_row(size, 4.0F, static_cast<uint32_t>(size));
      const float max = *std::max_element(row.begin(), row.end());
      double expected = 0.0;
      for (const float value : row) {
        expected += std::exp(double{(value - max) * scale});
      }
      std::vector<double> sums(num_blocks(size));
      std::vector<float> weights(size);
      const double sum = sum_exp(row, max, scale, sums.data());
      EXPECT_NEAR(sum / expected, 1.0, 6e-7);
      EXPECT_EQ(sum, weigh(row, max, scale, weights.data(), sums.data()));
      for (size_t i = 0; i < size; ++i) {
        const double distance = double{(max - row[i]) * scale};
        const double exact = std::exp(-distance);
        const double error = exact * (3e-7 + 2e-7 * distance);
        EXPECT_NEAR(double{weights[i]}, exact, error + 1.2e-38);  // denormal results are 0
      }
    }
  }
}

TEST(RowMath, ExponentialIsOneAtTheMaximumAndZeroFarBelow) {
  const std::vector<float> row = {5.0F, 5.0F - 87.0F, 5.0F - 88.0F, -1e30F, -kInfinite};
  std::vector<float> weights(row.size());
  double sum = 0.0;
  weigh(row, 5.0F, 1.0F, weights.data(), &sum);
  EXPECT_EQ(weights[0], 1.0F);
  EXPECT_GT(weights[1], 0.0F);
  EXPECT_EQ(weights[2], 0.0F);
  EXPECT_EQ(weights[3], 0.0F);
  EXPECT_EQ(weights[4], 0.0F);
}

TEST(RowMath, GatherKeepsEntriesAtOrAboveTheBoundInOrder) {
  for (const size_t size : kSizes) {
    const std::vector<float> row = normal_row(size, 2.0F, 5);
    std::vector<float> maxima(num_blocks(size));
    const float max = block_maxima(row, maxima.data()).max;
    std::vector<float> values(size);
    std::vector<int32_t> ids(size);
    std::vector<int32_t> expected;
    for (size_t i = 0; i < size; ++i) {
      if ((row[i] - max) * 2.0F >= -9.0F) {
        expected.push_back(static_cast<int32_t>(i));
      }
    }
    const size_t count =
        gather_from(row, nullptr, maxima.data(), max, 2.0F, -9.0F, values.data(), ids.data());
    ids.resize(count);
    EXPECT_EQ(ids, expected);
  }
}

TEST(RowMath, CountBeforeOrdersEqualEntriesByIndex) {
  const std::vector<float> row = {1.0F, 3.0F, 2.0F, 3.0F, 2.0F};
  EXPECT_EQ(count_before(row, 3.0F, 1), 0U);
  EXPECT_EQ(count_before(row, 3.0F, 3), 1U);
  EXPECT_EQ(count_before(row, 2.0F, 2), 2U);
  EXPECT_EQ(count_before(row, 2.0F, 4), 3U);
  EXPECT_EQ(count_before(row, 1.0F, 0), 4U);
}

}  // namespace
}  // namespace quire
