#include "kv/kv_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using Tokens = std::vector<TokenId>;

KvLayout layout_with(int32_t num_blocks, int32_t block_size,
                     std::vector<KvGroupSpec> groups = {KvGroupSpec{}}) {
  KvLayout layout;
  layout.num_blocks = num_blocks;
  layout.block_size = block_size;
  layout.groups = std::move(groups);
  return layout;
}

Tokens count_up_to(int32_t size) {
  Tokens tokens(static_cast<size_t>(size));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

// Opens a table and computes the tokens that are not in the prefix cache.
TableId computed(KvManager& kv, const Tokens& tokens, PrefixMatch& match) {
  const TableId table = kv.open("", "");
  kv.find_prefix(table, tokens, match);
  std::vector<BlockCopy> copies;
  EXPECT_TRUE(kv.start(table, match, static_cast<int32_t>(tokens.size()), copies));
  kv.commit(table, tokens, static_cast<int32_t>(tokens.size()));
  kv.check_integrity();
  return table;
}

TEST(KvManager, AllocatesOnDemandAndWastesOnlyTheLastBlock) {
  KvManager kv(layout_with(16, 4), {});
  PrefixMatch match;
  const Tokens tokens = count_up_to(9);
  const TableId table = computed(kv, tokens, match);
  EXPECT_EQ(kv.stats().num_used, 3);
  EXPECT_DOUBLE_EQ(kv.stats().waste(), 3.0 / 12.0);
  std::vector<BlockCopy> copies;
  EXPECT_TRUE(kv.allocate_slots(table, 12, copies));
  EXPECT_EQ(kv.stats().num_used, 3);
  EXPECT_TRUE(kv.allocate_slots(table, 13, copies));
  EXPECT_EQ(kv.stats().num_used, 4);
  EXPECT_TRUE(copies.empty());
  kv.close(table);
  EXPECT_EQ(kv.stats().num_used, 0);
  EXPECT_EQ(kv.stats().num_cached, 2);
  kv.check_integrity();
}

TEST(KvManager, ChangesNothingWhenBlocksRunOut) {
  KvManager kv(layout_with(4, 4), {});
  PrefixMatch match;
  const TableId table = computed(kv, count_up_to(9), match);
  const TableId other = kv.open("", "");
  kv.find_prefix(other, Tokens(8, 1), match);
  std::vector<BlockCopy> copies;
  EXPECT_FALSE(kv.start(other, match, 8, copies));
  EXPECT_FALSE(kv.allocate_slots(table, 17, copies));
  EXPECT_EQ(kv.stats().num_used, 3);
  EXPECT_TRUE(kv.block_table(other, 0).empty());
  kv.check_integrity();
}

TEST(KvManager, ReusesFullBlocksUpToTheSecondToLastToken) {
  KvManager kv(layout_with(16, 4), {});
  PrefixMatch match;
  const TableId first = computed(kv, count_up_to(12), match);
  EXPECT_EQ(match.num_tokens, 0);
  const TableId second = computed(kv, count_up_to(12), match);
  EXPECT_EQ(match.num_tokens, 8);
  EXPECT_EQ(kv.block_table(first, 0)[1], kv.block_table(second, 0)[1]);
  EXPECT_NE(kv.block_table(first, 0)[2], kv.block_table(second, 0)[2]);
  const TableId third = computed(kv, count_up_to(13), match);
  EXPECT_EQ(match.num_tokens, 12);
  for (const TableId table : {second, first, third}) kv.close(table);
  kv.check_integrity();
}

TEST(KvManager, FindsOnlyCommittedBlocks) {
  KvManager kv(layout_with(16, 4), {});
  PrefixMatch match;
  const TableId first = kv.open("", "");
  kv.find_prefix(first, count_up_to(12), match);
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(kv.start(first, match, 12, copies));
  const TableId second = kv.open("", "");
  kv.find_prefix(second, count_up_to(12), match);
  EXPECT_EQ(match.num_tokens, 0);
  kv.commit(first, count_up_to(12), 5);
  kv.find_prefix(second, count_up_to(12), match);
  EXPECT_EQ(match.num_tokens, 4);
}

TEST(KvManager, SeparatesAdaptersAndSalts) {
  KvManager kv(layout_with(16, 4), {});
  PrefixMatch match;
  computed(kv, count_up_to(12), match);
  kv.find_prefix(kv.open("other", ""), count_up_to(12), match);
  EXPECT_EQ(match.num_tokens, 0);
  kv.find_prefix(kv.open("", "tenant"), count_up_to(12), match);
  EXPECT_EQ(match.num_tokens, 0);
  kv.find_prefix(kv.open("", ""), count_up_to(12), match);
  EXPECT_EQ(match.num_tokens, 8);
}

TEST(KvManager, ReusesTheTailOfAFreedSequenceFirst) {
  KvManager kv(layout_with(4, 4), {});
  PrefixMatch match;
  const TableId first = computed(kv, count_up_to(16), match);
  kv.close(first);
  EXPECT_EQ(kv.stats().num_cached, 4);
  const TableId other = computed(kv, Tokens(8, 1), match);
  const TableId again = kv.open("", "");
  kv.find_prefix(again, count_up_to(16), match);
  EXPECT_EQ(match.num_tokens, 8) << "the front of the prefix is still there";
  kv.close(other);
}

TEST(KvManager, CopiesASharedBlockBeforeItIsWritten) {
  KvManager kv(layout_with(16, 4), {});
  PrefixMatch match;
  const Tokens tokens = count_up_to(6);
  const TableId parent = computed(kv, tokens, match);
  const TableId child = kv.fork(parent);
  EXPECT_EQ(kv.stats().num_used, 2);
  EXPECT_DOUBLE_EQ(kv.stats().waste(), 2.0 / 8.0) << "a shared block is counted once";
  const BlockId shared = kv.block_table(parent, 0)[1];
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(kv.allocate_slots(parent, 7, copies));
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].src, shared);
  EXPECT_EQ(copies[0].dst, kv.block_table(parent, 0)[1]);
  EXPECT_EQ(kv.block_table(child, 0)[1], shared);
  ASSERT_TRUE(kv.allocate_slots(child, 7, copies));
  EXPECT_EQ(copies.size(), 1U) << "the child has the block for itself now";
  EXPECT_EQ(kv.stats().num_copied_on_write, 1);
  kv.check_integrity();
  StepPlan plan;
  kv.append_updates(child, 11, plan);
  EXPECT_EQ(plan.block_table_updates.size(), 1U);
  kv.close(parent);
  kv.close(child);
  EXPECT_EQ(kv.stats().num_used, 0);
  kv.check_integrity();
}

// A preempted sample finds its prefix with the tokens that it has generated, and computes the prompt again
// for samples that generated other tokens.
TEST(KvManager, HashesTheOwnTokensOfAFork) {
  const std::vector<KvGroupSpec> groups = {KvGroupSpec{}, {KvGroupKind::kSlidingWindow, 4, {}}};
  KvManager kv(layout_with(32, 4, groups), {});
  PrefixMatch match;
  std::vector<BlockCopy> copies;
  const Tokens parent_tokens = {1, 2, 3, 4, 5, 5, 5, 5, 7, 7, 7, 7, 9};
  const Tokens child_tokens = {1, 2, 3, 4, 6, 6, 6, 6, 7, 7, 7, 7, 9};
  const TableId parent = kv.open("", "");
  kv.find_prefix(parent, parent_tokens, match);
  ASSERT_TRUE(kv.start(parent, match, 4, copies));
  kv.commit(parent, parent_tokens, 4);
  const TableId child = kv.fork(parent);
  ASSERT_TRUE(kv.allocate_slots(child, 13, copies));
  kv.commit(child, child_tokens, 13);
  const TableId reader = kv.open("", "");
  kv.find_prefix(reader, child_tokens, match);
  EXPECT_EQ(match.num_tokens, 12);
  const TableId other = kv.open("", "");
  kv.find_prefix(other, parent_tokens, match);
  EXPECT_EQ(match.num_tokens, 4) << "the last block follows other tokens, though its own are the same";
  for (const TableId table : {parent, child, reader, other}) kv.close(table);
  kv.check_integrity();
}

TEST(KvManager, SendsOnlyTheChangesOfATable) {
  KvManager kv(layout_with(16, 4), {});
  PrefixMatch match;
  const TableId table = computed(kv, count_up_to(9), match);
  StepPlan plan;
  kv.append_updates(table, 5, plan);
  ASSERT_EQ(plan.block_table_updates.size(), 1U);
  EXPECT_EQ(plan.block_table_updates[0].count, 3);
  plan = {};
  kv.append_updates(table, 5, plan);
  EXPECT_TRUE(plan.block_table_updates.empty());
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(kv.allocate_slots(table, 13, copies));
  kv.append_updates(table, 5, plan);
  ASSERT_EQ(plan.block_table_updates.size(), 1U);
  EXPECT_EQ(plan.block_table_updates[0].seq, 5);
  EXPECT_EQ(plan.block_table_updates[0].first_index, 3);
  EXPECT_THAT(plan.block_ids, ElementsAre(kv.block_table(table, 0)[3]));
}

TEST(KvManager, FreesBlocksThatLeaveTheWindow) {
  KvManager kv(layout_with(16, 4, {{KvGroupKind::kSlidingWindow, 5, {}}}), {});
  const TableId table = kv.open("", "");
  PrefixMatch match;
  const Tokens tokens = count_up_to(40);
  kv.find_prefix(table, tokens, match);
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(kv.start(table, match, 8, copies));
  for (int32_t position = 8; position < 40; ++position) {
    kv.commit(table, tokens, position);
    ASSERT_TRUE(kv.allocate_slots(table, position + 1, copies));
    kv.check_integrity();
    EXPECT_LE(kv.stats().num_used, 3);
    // The token at `position` attends to positions from position - 4 on.
    EXPECT_GE(kv.block_table(table, 0)[static_cast<size_t>((position - 4) / 4)], 0);
  }
  EXPECT_EQ(kv.block_table(table, 0)[0], -1);
}

TEST(KvManager, FreesTheBlocksOfFinishedChunks) {
  KvManager kv(layout_with(16, 4, {{KvGroupKind::kChunked, 6, {}}}), {});
  const TableId table = kv.open("", "");
  PrefixMatch match;
  const Tokens tokens = count_up_to(40);
  kv.find_prefix(table, count_up_to(4), match);  // too short for a hit
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(kv.start(table, match, 8, copies));
  for (int32_t position = 8; position < 40; ++position) {
    kv.commit(table, tokens, position);
    ASSERT_TRUE(kv.allocate_slots(table, position + 1, copies));
    kv.check_integrity();
    EXPECT_LE(kv.num_held(table), 3);
    const int32_t chunk_begin = position - position % 6;
    EXPECT_GE(kv.block_table(table, 0)[static_cast<size_t>(chunk_begin / 4)], 0);
  }
  EXPECT_EQ(kv.block_table(table, 0)[8], -1);
}

TEST(KvManager, NeedsNoBlockForAHitThatEndsAtAChunk) {
  KvManager kv(layout_with(12, 4, {{KvGroupKind::kChunked, 8, {}}}), {});
  PrefixMatch match;
  const Tokens tokens = count_up_to(33);
  kv.close(computed(kv, tokens, match));
  const TableId again = kv.open("", "");
  kv.find_prefix(again, tokens, match);
  EXPECT_EQ(match.num_tokens, 32);
  for (const CachedBlock& cached : match.blocks[0]) EXPECT_EQ(cached.block, -1);
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(kv.start(again, match, 33, copies));
  EXPECT_EQ(kv.num_held(again), 1);
  kv.check_integrity();
}

TEST(KvManager, NeedsOnlyTheBlocksOfTheWindowForAHit) {
  // Only the last block is inside the window of the next token.
  KvManager kv(layout_with(12, 4, {{KvGroupKind::kSlidingWindow, 5, {}}}), {});
  PrefixMatch match;
  const Tokens tokens = count_up_to(33);
  const TableId table = computed(kv, tokens, match);
  kv.close(table);
  const TableId again = kv.open("", "");
  kv.find_prefix(again, tokens, match);
  EXPECT_EQ(match.num_tokens, 32);
  ASSERT_EQ(match.blocks[0].size(), 8U);
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(match.blocks[0][i].block, -1);
  EXPECT_GE(match.blocks[0][7].block, 0);
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(kv.start(again, match, 33, copies));
  kv.check_integrity();
}

TEST(KvManager, NeedsThePrefixInAllGroups) {
  KvManager kv(layout_with(40, 4, {{KvGroupKind::kSlidingWindow, 5, {}}, {KvGroupKind::kFull, 0, {}}}), {});
  PrefixMatch match;
  const Tokens tokens = count_up_to(33);
  const TableId table = computed(kv, tokens, match);
  EXPECT_EQ(kv.stats().num_used, 9 + 2);
  kv.close(table);
  kv.check_integrity();
  const TableId again = kv.open("", "");
  kv.find_prefix(again, tokens, match);
  EXPECT_EQ(match.num_tokens, 32);
  Tokens shorter(tokens.begin(), tokens.begin() + 20);
  kv.find_prefix(kv.open("", ""), shorter, match);
  EXPECT_EQ(match.num_tokens, 16) << "the window's older blocks were given back and are still findable";
}

TEST(KvManager, RejectsInvalidLayouts) {
  EXPECT_THROW(KvManager(layout_with(8, 4, {}), {}), Error);
  EXPECT_THROW(KvManager(layout_with(8, 4, {{KvGroupKind::kSlidingWindow, 0, {}}}), {}), Error);
  EXPECT_THROW(KvManager(layout_with(8, 4, {{KvGroupKind::kChunked, 0, {}}}), {}), Error);
}

TEST(KvManager, CountsTheBlocksOfALongSequence) {
  KvManager full(layout_with(8, 16), {});
  EXPECT_EQ(full.max_blocks(0, 64), 0);
  EXPECT_EQ(full.max_blocks(1, 64), 1);
  EXPECT_EQ(full.max_blocks(33, 64), 3);
  EXPECT_EQ(full.max_blocks(4'000'000'000, 64), 250'000'000);
  KvManager window(layout_with(8, 16, {{KvGroupKind::kSlidingWindow, 32, {}}}), {});
  EXPECT_EQ(window.max_blocks(20, 16), 2);
  EXPECT_EQ(window.max_blocks(100'000, 16), 4);
}

}  // namespace
}  // namespace quire
