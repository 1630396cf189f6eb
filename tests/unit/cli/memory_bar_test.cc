#include "cli/memory_bar.h"

#include <gtest/gtest.h>

namespace quire::cli {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

TEST(MemoryBar, ShowsWeightsCacheAndFreeMemory) {
  EXPECT_EQ(memory_bar(1 * kGiB, 2 * kGiB, 5 * kGiB), "[##########====================....................]");
  EXPECT_EQ(memory_legend(1 * kGiB, 2 * kGiB, 5 * kGiB),
            "# 1.0 GiB weights, = 2.0 GiB KV cache, . 2.0 GiB free");
}

TEST(MemoryBar, SmallPartsAreVisible) {
  EXPECT_EQ(memory_bar(1, 1, kGiB).substr(0, 5), "[#=..");
  EXPECT_EQ(memory_bar(1, 0, kGiB).substr(0, 5), "[#...");
}

TEST(MemoryBar, MarksWhatDoesNotFit) {
  EXPECT_EQ(memory_bar(6 * kGiB, 2 * kGiB, 4 * kGiB).back(), '!');
  EXPECT_EQ(memory_legend(6 * kGiB, 0, 4 * kGiB), "# 6.0 GiB weights, 2.0 GiB more than the free memory");
}

}  // namespace
}  // namespace quire::cli
