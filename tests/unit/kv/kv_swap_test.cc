// The host pool: evicted prefixes and swapped sequences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kv/kv_manager.h"
#include "unit/kv/kv_testing.h"

namespace quire {
namespace {

using test::count_to;
using test::layout_of;
using test::Tokens;

class KvSwap : public test::KvTierTest {};

TEST_F(KvSwap, OffloadsAndLoadsAnEvictedPrefix) {
  KvManager kv(layout_of(4, 8), {});
  kv.close(computed(kv, count_to(12)));
  kv.close(computed(kv, Tokens(16, 7)));
  EXPECT_EQ(kv.stats().host.num_cached, 3);
  ASSERT_EQ(copies_.size(), 3U);
  EXPECT_EQ(copies_[0].src_tier, KvTier::kDevice);
  EXPECT_EQ(copies_[0].dst_tier, KvTier::kHost);
  copies_.clear();
  const TableId again = computed(kv, count_to(12));
  EXPECT_EQ(match_.num_tokens, 8) << "at most all but one token";
  EXPECT_EQ(match_.blocks[0][0].tier, KvTier::kHost);
  EXPECT_EQ(std::count_if(copies_.begin(), copies_.end(),
                          [](const BlockCopy& copy) { return copy.dst_tier == KvTier::kDevice; }),
            2);
  kv.find_prefix(kv.open("", ""), count_to(9), match_);
  EXPECT_EQ(match_.blocks[0][1].tier, KvTier::kDevice) << "it is in the device's cache again";
  kv.close(again);
  EXPECT_EQ(kv.stats().host.num_hits, 2);
  kv.check_integrity();
}

TEST_F(KvSwap, LosesEvictedPrefixesWithoutAHostPool) {
  KvManager kv(layout_of(4, 0), {});
  kv.close(computed(kv, count_to(12)));
  kv.close(computed(kv, Tokens(16, 7)));
  EXPECT_TRUE(copies_.empty());
  const TableId table = computed(kv, count_to(12));
  EXPECT_EQ(match_.num_tokens, 0);
  EXPECT_FALSE(kv.swap_out({&table, 1}, copies_));
}

TEST_F(KvSwap, SwapsASequenceOutAndIn) {
  KvManager kv(layout_of(8, 8), {});
  const TableId table = computed(kv, count_to(10));
  ASSERT_TRUE(kv.swap_out({&table, 1}, copies_));
  kv.check_integrity();
  EXPECT_TRUE(kv.swapped_out(table));
  EXPECT_EQ(copies_.size(), 3U);
  EXPECT_EQ(kv.num_computed(table), 10);
  EXPECT_EQ(kv.stats().num_used, 0);
  EXPECT_EQ(kv.stats().host.num_used, 3);
  EXPECT_TRUE(kv.block_table(table, 0).empty());

  copies_.clear();
  ASSERT_TRUE(kv.swap_in({&table, 1}, copies_));
  kv.check_integrity();
  EXPECT_EQ(copies_.size(), 1U) << "the device's prefix cache still has the full blocks";
  EXPECT_EQ(copies_[0].src_tier, KvTier::kHost);
  EXPECT_EQ(kv.block_table(table, 0).size(), 3U);
  StepPlan plan;
  kv.append_updates(table, 1, plan);
  ASSERT_EQ(plan.block_table_updates.size(), 1U);
  EXPECT_EQ(plan.block_table_updates[0].first_index, 0) << "the executor gets the whole table again";
}

TEST_F(KvSwap, KeepsBlocksSharedOnTheHost) {
  KvManager kv(layout_of(16, 16), {});
  const TableId first = computed(kv, count_to(10));
  const TableId second = kv.fork(first);
  ASSERT_TRUE(kv.allocate_slots(second, 11, copies_));
  copies_.clear();
  const TableId tables[] = {first, second};
  ASSERT_TRUE(kv.swap_out(tables, copies_));
  EXPECT_EQ(copies_.size(), 4U) << "two shared blocks and one of each";
  EXPECT_EQ(kv.stats().host.num_used, 4);
  EXPECT_EQ(kv.blocks_to_swap_in(tables), 4);
  ASSERT_TRUE(kv.swap_in(tables, copies_));
  kv.check_integrity();
  EXPECT_EQ(kv.block_table(first, 0)[1], kv.block_table(second, 0)[1]);
  EXPECT_NE(kv.block_table(first, 0)[2], kv.block_table(second, 0)[2]);
  EXPECT_EQ(kv.stats().num_used, 4);
}

TEST_F(KvSwap, ChangesNothingWhenTheHostPoolIsTooSmall) {
  KvManager kv(layout_of(8, 2), {});
  const TableId table = computed(kv, count_to(10));
  EXPECT_FALSE(kv.swap_out({&table, 1}, copies_));
  kv.check_integrity();
  EXPECT_FALSE(kv.swapped_out(table));
  EXPECT_EQ(kv.block_table(table, 0).size(), 3U);
  EXPECT_TRUE(copies_.empty());
}

TEST_F(KvSwap, ChangesNothingWhenTheDeviceIsTooSmall) {
  KvManager kv(layout_of(4, 8), {});
  const TableId table = computed(kv, count_to(10));
  ASSERT_TRUE(kv.swap_out({&table, 1}, copies_));
  const TableId other = computed(kv, Tokens(12, 7));
  copies_.clear();
  EXPECT_EQ(kv.blocks_to_swap_in({&table, 1}), 3);
  EXPECT_FALSE(kv.swap_in({&table, 1}, copies_));
  EXPECT_TRUE(kv.swapped_out(table));
  EXPECT_TRUE(copies_.empty());
  kv.close(other);
  EXPECT_TRUE(kv.swap_in({&table, 1}, copies_));
  kv.check_integrity();
}

TEST_F(KvSwap, EvictsCachedHostBlocksIfNeeded) {
  KvManager kv(layout_of(4, 3), {});
  kv.close(computed(kv, count_to(12)));
  const TableId table = computed(kv, Tokens(16, 7));
  EXPECT_EQ(kv.stats().host.num_cached, 3);
  EXPECT_FALSE(kv.swap_out({&table, 1}, copies_)) << "four blocks";
  const TableId smaller = kv.open("", "");
  kv.close(table);
  kv.find_prefix(smaller, Tokens(10, 8), match_);
  ASSERT_TRUE(kv.start(smaller, match_, 10, copies_));
  kv.commit(smaller, Tokens(10, 8), 10);
  ASSERT_TRUE(kv.swap_out({&smaller, 1}, copies_));
  EXPECT_EQ(kv.stats().host.num_used, 3);
  kv.check_integrity();
}

TEST_F(KvSwap, FreesTheHostBlocksOfAFinishedSequence) {
  KvManager kv(layout_of(8, 8), {});
  const TableId table = computed(kv, count_to(10));
  const TableId other = computed(kv, Tokens(6, 7));
  ASSERT_TRUE(kv.swap_out({&table, 1}, copies_));
  ASSERT_TRUE(kv.swap_out({&other, 1}, copies_));
  kv.close(table);
  kv.clear(other);
  EXPECT_FALSE(kv.swapped_out(other));
  EXPECT_EQ(kv.stats().host.num_used, 0);
  EXPECT_EQ(kv.num_computed(other), 0);
  kv.check_integrity();
}

TEST_F(KvSwap, LetsOthersFindTheFullBlocksOfASwappedSequence) {
  KvManager kv(layout_of(3, 8), {});
  const TableId table = computed(kv, count_to(10));
  ASSERT_TRUE(kv.swap_out({&table, 1}, copies_));
  kv.close(computed(kv, Tokens(12, 7)));  // takes the whole device
  const TableId other = kv.open("", "");
  kv.find_prefix(other, count_to(9), match_);
  EXPECT_EQ(match_.num_tokens, 8);
  EXPECT_EQ(match_.blocks[0][0].tier, KvTier::kHost);
  EXPECT_TRUE(kv.start(other, match_, 9, copies_));
  kv.check_integrity();
}

TEST_F(KvSwap, ResetsTheHostCache) {
  KvManager kv(layout_of(4, 8), {});
  kv.close(computed(kv, count_to(12)));
  kv.close(computed(kv, Tokens(16, 7)));
  kv.reset_prefix_cache();
  EXPECT_EQ(kv.stats().host.num_cached, 0);
  computed(kv, count_to(12));
  EXPECT_EQ(match_.num_tokens, 0);
}

}  // namespace
}  // namespace quire
