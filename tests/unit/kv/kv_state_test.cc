// State groups: checkpoints are found, and the live state is in a block of its own.
#include <gtest/gtest.h>

#include <numeric>

#include "kv/kv_manager.h"

namespace quire {
namespace {

using Tokens = std::vector<TokenId>;

KvLayout layout_of(std::vector<KvGroupSpec> groups) {
  KvLayout layout;
  layout.num_blocks = 32;
  layout.block_size = 4;
  layout.groups = std::move(groups);
  return layout;
}

// A checkpoint every 8 tokens.
KvOptions every_second_block() {
  KvOptions options;
  options.checkpoint_blocks = 2;
  return options;
}

Tokens counted_tokens(int32_t size) {
  Tokens tokens(static_cast<size_t>(size));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

const KvGroupSpec kState = {KvGroupKind::kState, 0, {}};
const KvGroupSpec kFull = {KvGroupKind::kFull, 0, {}};

class KvState : public ::testing::Test {
 protected:
  TableId started(KvManager& kv, const Tokens& tokens, int32_t chunk) {
    const TableId table = kv.open("", "");
    kv.find_prefix(table, tokens, match_);
    EXPECT_TRUE(kv.start(table, match_, match_.num_tokens + chunk, copies_));
    kv.commit(table, tokens, match_.num_tokens + chunk);
    kv.check_integrity();
    return table;
  }
  void advance(KvManager& kv, TableId table, const Tokens& tokens, int32_t num_computed) {
    ASSERT_TRUE(kv.allocate_slots(table, num_computed, copies_));
    kv.commit(table, tokens, num_computed);
    kv.check_integrity();
  }

  PrefixMatch match_;
  std::vector<BlockCopy> copies_;
};

TEST_F(KvState, UsesOneBlockForAnyLength) {
  KvManager kv(layout_of({kState}), every_second_block());
  const Tokens tokens = counted_tokens(100);
  const TableId table = started(kv, tokens, 5);
  for (const int32_t end : {11, 30, 70, 99}) {
    advance(kv, table, tokens, end);
    EXPECT_EQ(kv.stats().num_used, 1);
    EXPECT_EQ(kv.block_table(table, 0).size(), 1U);
  }
  EXPECT_TRUE(copies_.empty()) << "no chunk ended at a checkpoint";
  kv.close(table);
  EXPECT_EQ(kv.stats().num_cached, 0);
  EXPECT_LE(kv.max_blocks(1'000'000, 64), 2);
}

TEST_F(KvState, ContinuesInACopyAfterACheckpoint) {
  KvManager kv(layout_of({kState}), every_second_block());
  const Tokens tokens = counted_tokens(20);
  const TableId table = started(kv, tokens, 8);
  const BlockId checkpoint = kv.block_table(table, 0)[0];
  StepPlan plan;
  kv.append_updates(table, 1, plan);
  advance(kv, table, tokens, 10);
  ASSERT_EQ(copies_.size(), 1U);
  EXPECT_EQ(copies_[0].src, checkpoint);
  EXPECT_EQ(copies_[0].dst, kv.block_table(table, 0)[0]);
  plan = {};
  kv.append_updates(table, 1, plan);
  ASSERT_EQ(plan.block_table_updates.size(), 1U);
  EXPECT_EQ(plan.block_table_updates[0].first_index, 0);
  advance(kv, table, tokens, 12);
  EXPECT_EQ(copies_.size(), 1U) << "there is no checkpoint at 12";
  EXPECT_EQ(kv.stats().num_cached, 1);
}

TEST_F(KvState, MatchesUpToTheLastCheckpoint) {
  KvManager kv(layout_of({kState, kFull}), every_second_block());
  const Tokens tokens = counted_tokens(40);
  const TableId table = started(kv, tokens, 8);
  advance(kv, table, tokens, 24);
  advance(kv, table, tokens, 37);
  const TableId other = kv.open("", "");
  kv.find_prefix(other, tokens, match_);
  EXPECT_EQ(match_.num_tokens, 24) << "the blocks of the full group reach to 36";
  EXPECT_EQ(match_.blocks[0].size(), 6U);
  EXPECT_EQ(match_.blocks[0][1].block, -1) << "only the checkpoint at the end is needed";
  EXPECT_GE(match_.blocks[0][5].block, 0);
  kv.find_prefix(other, counted_tokens(24), match_);
  EXPECT_EQ(match_.num_tokens, 8) << "at most all but one token";
  kv.find_prefix(other, counted_tokens(8), match_);
  EXPECT_EQ(match_.num_tokens, 0);
}

TEST_F(KvState, StartsFromACopyOfTheCheckpoint) {
  KvManager kv(layout_of({kState, kFull}), every_second_block());
  const Tokens tokens = counted_tokens(20);
  const TableId table = started(kv, tokens, 16);
  const BlockId checkpoint = kv.block_table(table, 0)[0];
  const TableId other = started(kv, tokens, 2);
  EXPECT_EQ(match_.num_tokens, 16);
  ASSERT_EQ(copies_.size(), 1U);
  EXPECT_EQ(copies_[0].src, checkpoint);
  EXPECT_EQ(copies_[0].dst, kv.block_table(other, 0)[0]);
  EXPECT_EQ(kv.block_table(table, 0)[0], checkpoint);
}

TEST_F(KvState, CopiesAForkedStateBeforeItIsOverwritten) {
  KvManager kv(layout_of({kState}), every_second_block());
  const Tokens tokens = counted_tokens(20);
  const TableId parent = started(kv, tokens, 5);
  const TableId child = kv.fork(parent);
  EXPECT_EQ(kv.stats().num_used, 1);
  advance(kv, parent, tokens, 6);
  EXPECT_EQ(copies_.size(), 1U);
  advance(kv, child, tokens, 6);
  EXPECT_EQ(copies_.size(), 1U) << "the child has the block for itself now";
  EXPECT_NE(kv.block_table(parent, 0)[0], kv.block_table(child, 0)[0]);
}

TEST_F(KvState, ReportsTheDistanceToTheNextBlockBoundary) {
  KvManager kv(layout_of({kState}), every_second_block());
  const Tokens tokens = counted_tokens(20);
  const TableId table = started(kv, tokens, 5);
  EXPECT_EQ(kv.tokens_to_checkpoint(table), 3);
  advance(kv, table, tokens, 8);
  EXPECT_EQ(kv.tokens_to_checkpoint(table), 8);
  KvManager full(layout_of({kFull}), every_second_block());
  EXPECT_EQ(full.tokens_to_checkpoint(full.open("", "")), 0);
}

}  // namespace
}  // namespace quire
