// Detection of outputs that repeat themselves.
#include "sched/repetition.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace quire {
namespace {

bool repeats(const std::vector<TokenId>& output, int32_t max_size, int32_t min_size, int32_t count) {
  return ends_in_repetition(output, {max_size, min_size, count});
}

TEST(RepetitionDetection, CountsCopiesOfAPatternAtTheEnd) {
  EXPECT_TRUE(repeats({9, 1, 2, 1, 2, 1, 2}, 2, 0, 3));
  EXPECT_FALSE(repeats({9, 1, 2, 1, 2, 1, 2}, 2, 0, 4));
  EXPECT_FALSE(repeats({9, 1, 2, 1, 2, 1, 2, 9}, 2, 0, 2));
  EXPECT_FALSE(repeats({1, 2, 3, 1, 2, 3}, 2, 0, 2)) << "the pattern is longer";
  EXPECT_TRUE(repeats({1, 2, 3, 1, 2, 3}, 3, 0, 2));
}

TEST(RepetitionDetection, ShortPatternsCanBeAllowed) {
  EXPECT_TRUE(repeats({5, 5, 5}, 4, 0, 3));
  EXPECT_FALSE(repeats({5, 5, 5}, 4, 2, 3));
  EXPECT_TRUE(repeats({5, 5, 5, 5, 5, 5}, 4, 2, 3));
}

TEST(RepetitionDetection, IsOffWithoutAPatternSizeOrACount) {
  EXPECT_FALSE(repeats({5, 5, 5, 5}, 0, 0, 2));
  EXPECT_FALSE(repeats({5, 5, 5, 5}, 4, 0, 1));
  EXPECT_FALSE(repeats({}, 4, 0, 2));
  const int32_t max_count = std::numeric_limits<int32_t>::max();
  EXPECT_FALSE(repeats({5, 5, 5, 5}, max_count, 0, max_count));
}

}  // namespace
}  // namespace quire
