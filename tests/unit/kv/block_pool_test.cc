#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace quire {
namespace {

TEST(BlockPool, AllocatesEachBlockOnce) {
  BlockPool pool(4, 16);
  std::vector<bool> seen(4, false);
  for (int i = 0; i < 4; ++i) {
    const BlockId block = pool.allocate();
    ASSERT_GE(block, 0);
    EXPECT_FALSE(seen[static_cast<size_t>(block)]);
    seen[static_cast<size_t>(block)] = true;
  }
  EXPECT_EQ(pool.allocate(), -1);
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_EQ(pool.num_used(), 4);
  pool.check_integrity();
}

TEST(BlockPool, ReusesUncachedBlocksFirstAndCachedOnesOldestFirst) {
  BlockPool pool(4, 16);
  for (int i = 0; i < 4; ++i) pool.allocate();
  pool.free(2, true);
  pool.free(0, true);
  pool.free(3, false);
  pool.free(1, false);
  EXPECT_EQ(pool.allocate(), 1);
  EXPECT_EQ(pool.allocate(), 3);
  EXPECT_EQ(pool.allocate(), 2);
  EXPECT_EQ(pool.allocate(), 0);
}

TEST(BlockPool, FreesABlockWithItsLastReference) {
  BlockPool pool(2, 16);
  const BlockId block = pool.allocate();
  pool.add_ref(block);
  pool.free(block, false);
  EXPECT_EQ(pool.num_free(), 1);
  pool.free(block, false);
  EXPECT_EQ(pool.num_free(), 2);
  pool.check_integrity();
}

TEST(BlockPool, RemovesAReferencedBlockFromTheMiddleOfTheFreeList) {
  BlockPool pool(5, 16);
  pool.add_ref(2);
  EXPECT_EQ(pool.num_free(), 4);
  pool.check_integrity();
  for (const BlockId expected : {0, 1, 3, 4}) EXPECT_EQ(pool.allocate(), expected);
}

TEST(BlockPool, CountsFilledSlotsOfUsedBlocksOnce) {
  BlockPool pool(3, 16);
  const BlockId block = pool.allocate();
  pool.set_filled(block, 5);
  EXPECT_EQ(pool.filled_slots_in_use(), 5);
  pool.add_ref(block);
  pool.set_filled(block, 16);
  EXPECT_EQ(pool.filled_slots_in_use(), 16);
  pool.free(block, true);
  pool.free(block, true);
  EXPECT_EQ(pool.filled_slots_in_use(), 0);
  pool.add_ref(block);
  EXPECT_EQ(pool.filled_slots_in_use(), 16) << "its content is there again";
  pool.check_integrity();
}

TEST(BlockPool, RejectsEmptyPools) {
  EXPECT_THROW(BlockPool(0, 16), Error);
  EXPECT_THROW(BlockPool(4, 0), Error);
}

}  // namespace
}  // namespace quire
