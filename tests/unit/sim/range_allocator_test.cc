#include "sim/range_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace quire::sim {
namespace {

// Allocates and frees at random. Ranges never overlap, and all freed memory can be allocated again as one
// range.
void check_random(RangePool& pool, int64_t num_slots, int64_t longest) {
  std::mt19937 engine(5);
  std::vector<Range> held;
  const int64_t all_free = pool.num_free();
  for (int round = 0; round < 4000; ++round) {
    if (held.empty() || engine() % 2 == 0) {
      const int64_t size = 1 + static_cast<int64_t>(engine() % static_cast<uint32_t>(longest));
      const Range range = pool.take(size);
      if (range.begin < 0) continue;
      ASSERT_GE(range.size, size);
      ASSERT_LE(range.begin + range.size, num_slots);
      for (const Range& other : held) {
        ASSERT_TRUE(range.begin + range.size <= other.begin || other.begin + other.size <= range.begin);
      }
      held.push_back(range);
    } else {
      const size_t i = engine() % held.size();
      pool.give_back(held[i]);
      held[i] = held.back();
      held.pop_back();
    }
    int64_t taken = 0;
    for (const Range& range : held) taken += range.size;
    ASSERT_EQ(pool.num_free() + taken, all_free);
  }
  for (const Range& range : held) pool.give_back(range);
  EXPECT_EQ(pool.num_free(), all_free);
}

TEST(FirstFit, KeepsRangesDisjointAndMergesFreeRanges) {
  FirstFitPool pool(1000);
  check_random(pool, 1000, 200);
  EXPECT_EQ(pool.take(1000).begin, 0) << "all of it is one range again";
}

TEST(FirstFit, AllocatesTheFirstFreeRangeThatFits) {
  FirstFitPool pool(100);
  const Range a = pool.take(10);
  const Range b = pool.take(30);
  pool.take(10);
  pool.give_back(a);
  EXPECT_EQ(pool.take(20).begin, 50);
  pool.give_back(b);
  EXPECT_EQ(pool.take(40).begin, 0);
  EXPECT_EQ(pool.take(31).begin, -1) << "30 are left, in one piece";
}

TEST(Buddy, KeepsRangesDisjointAndMergesBuddies) {
  BuddyPool pool(1024 + 256);
  check_random(pool, 1024 + 256, 200);
  EXPECT_EQ(pool.take(1024).begin, 0);
  EXPECT_EQ(pool.take(256).begin, 1024);
}

TEST(Buddy, RoundsUpToPowersOfTwo) {
  BuddyPool pool(1024);
  EXPECT_EQ(pool.take(1).size, BuddyPool::kSmallest);
  EXPECT_EQ(pool.take(129).size, 256);
  EXPECT_EQ(pool.take(512).size, 512);
  EXPECT_EQ(pool.take(512).begin, -1);
  EXPECT_EQ(BuddyPool(100).num_free(), 64 + 32) << "sizes are powers of two";
}

}  // namespace
}  // namespace quire::sim
