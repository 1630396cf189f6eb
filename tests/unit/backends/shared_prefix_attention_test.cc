// Sequences that share blocks: attention reads these once, with the same results.
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "attention_testing.h"
#include "backends/cpu/attention_plan.h"
#include "support/sanitizers.h"

namespace quire {
namespace {

using test::CacheSetup;
using test::describe;
using test::kFormats;
using test::kSinks;
using test::kSlopes;
using test::Prefix;
using test::same_row;
using test::same_rows;
using test::Sequences;
using test::TestContext;
using test::TestTensor;
using test::usable_isas;

// A tree of prefixes: three, two and one shared KV splits, less than one, and none; with one and with several
// new rows. The last two sequences have the same blocks and end in the last of them.
const std::vector<int32_t> kLengths = {1700, 1600, 1540, 1090, 600, 700, 40, 1800, 1536, 1530};
const std::vector<Prefix> kPrefixes = {{},       {0, 1536}, {0, 1536}, {1, 1024}, {0, 512},
                                       {0, 256}, {},        {0, 1696}, {0, 1536}, {0, 1536}};
const std::vector<int32_t> kFrom = {1699, 1599, 1530, 1089, 599, 699, 39, 1793, 1535, 1528};

TEST(SharedPrefixAttention, GivesTheSameBits) {
  size_t count = 0;
  for (const DType dtype : kFormats) {
    for (const CacheSetup& setup :
         {CacheSetup{.dtype = dtype}, CacheSetup{.heads = 6, .kv_heads = 6, .block_size = 32, .dtype = dtype},
          CacheSetup{.dtype = dtype, .params = {.scale = 0.2F, .window = 700}},
          CacheSetup{.heads = 6,
          .kv_heads = 1,
          .head_dim = 20,
          .block_size = 8,
          .dtype = dtype,
          .params = {.scale = 0.2F, .logit_softcap = 3, .alibi_slopes = kSlopes, .sinks = kSinks}}}) {
      if (test::kSanitizer && count++ % 3 != 0) continue;  // two formats each
      for (const CpuIsa& isa : usable_isas()) {
        SCOPED_TRACE(std::string(isa.name) + ", " + describe(setup));
        const Sequences sequences(*isa.table, setup, kLengths, kPrefixes);
        const TestContext one(*isa.table, 1, 64, 2048, 8, 32);
        const TestContext several(*isa.table, 3, 64, 2048, 8, 32);
        const TestTensor apart = sequences.run(kFrom, kLengths, one);
        EXPECT_TRUE(same_rows(apart, sequences.run(kFrom, kLengths, one, true))) << "one thread";
        EXPECT_TRUE(same_rows(apart, sequences.run(kFrom, kLengths, several, true))) << "three threads";
        int64_t row = 0;
        for (size_t s = 0; s < kLengths.size(); ++s) {
          std::vector<int32_t> own_from = kLengths;  // the other sequences have no rows
          own_from[s] = kFrom[s];
          const TestTensor alone = sequences.run(own_from, kLengths, one);
          for (int64_t r = 0; r < alone.view().rows(); ++r)
            ASSERT_TRUE(same_row(alone, r, apart, row++)) << "sequence " << s;
        }
      }
    }
  }
}

TEST(SharedPrefixAttention, GivesTheSameBitsWithAPromptInTheBatch) {
  // The many query rows of a prompt are computed separately. So is everything if there is no room for states.
  const std::vector<int32_t> lengths = {1100, 1200, 1150};
  const std::vector<Prefix> prefixes = {{}, {0, 1024}, {0, 1024}};
  const std::vector<int32_t> from = {1099, 1030, 1149};
  for (const CpuIsa& isa : usable_isas()) {
    const Sequences sequences(*isa.table, {.dtype = DType::kBF16}, lengths, prefixes);
    const TestContext one(*isa.table, 1, 256, 2048, 8, 32);
    const TestTensor apart = sequences.run(from, lengths, one);
    EXPECT_TRUE(same_rows(apart, sequences.run(from, lengths, one, true))) << isa.name;
    if (isa.name == "generic") continue;
    const TestContext tight(*isa.table, 2, 8, 1, 4, 32);
    EXPECT_TRUE(same_rows(apart, sequences.run(from, lengths, tight, true))) << isa.name;
  }
}

// A batch of sequences given by their block tables, with blocks of 16 tokens and one new row each.
struct Batch {
  std::vector<int32_t> cu = {0}, lens, indptr = {0}, ids;
  SharedPrefixes shared;
  AttentionBatch batch;

  void add(const std::vector<int32_t>& blocks, int32_t length, int32_t rows = 1) {
    ids.insert(ids.end(), blocks.begin(), blocks.end());
    indptr.push_back(static_cast<int32_t>(ids.size()));
    lens.push_back(length);
    cu.push_back(cu.back() + rows);
  }
  const AttentionBatch& done() {
    batch = {static_cast<int32_t>(lens.size()), cu, lens, indptr, ids};
    shared.find(batch);
    batch.shared_order = shared.order();
    batch.shared_blocks = shared.blocks();
    return batch;
  }
};

std::vector<int32_t> blocks_from(int32_t first, int32_t count) {
  std::vector<int32_t> blocks(static_cast<size_t>(count));
  std::iota(blocks.begin(), blocks.end(), first);
  return blocks;
}

// Returns how often the plan reads each KV split of a block table, by its first block. Checks that each
// sequence reads each of its KV splits once.
std::map<std::pair<int32_t, int64_t>, int> reads(const cpu::AttentionShape& shape, int threads,
                                                 int64_t max_states) {
  std::vector<std::byte> memory(cpu::AttentionPlan::bytes(shape.batch.num_seqs));
  const cpu::AttentionPlan plan(memory.data(), shape, threads, max_states);
  std::map<std::pair<int32_t, int64_t>, int> by_block;
  std::map<std::pair<int32_t, int64_t>, int> by_sequence;
  const cpu::AttentionNode* before = nullptr;
  for (int64_t piece = 0; piece < plan.num_pieces(); ++piece) {
    const cpu::AttentionNode& node = plan.node_of(piece);
    if (&node == before) continue;
    before = &node;
    for (int64_t split = node.first_split; split < node.end_split; ++split) {
      const auto s = static_cast<size_t>(plan.member(node.first_member));
      const auto at =
          static_cast<size_t>(shape.batch.block_table_indptr[s] + split * cpu::kKvSplit / shape.block_size);
      ++by_block[{shape.batch.block_table[at], split}];
      for (int32_t i = node.first_member; i < node.first_member + node.num_members; ++i)
        ++by_sequence[{plan.member(i), split}];
    }
  }
  int64_t expected = 0;
  for (int32_t s = 0; s < shape.batch.num_seqs; ++s) expected += shape.num_splits(s);
  EXPECT_EQ(static_cast<int64_t>(by_sequence.size()), expected);
  for (const auto& [key, count] : by_sequence)
    EXPECT_EQ(count, 1) << "sequence " << key.first << ", split " << key.second;
  return by_block;
}

TEST(AttentionPlan, ReadsASharedKvSplitOnce) {
  Batch b;
  for (int32_t i = 0; i < 5; ++i) {
    std::vector<int32_t> blocks = blocks_from(0, 64);  // two splits
    const std::vector<int32_t> own = blocks_from(100 + 10 * i, 3);
    blocks.insert(blocks.end(), own.begin(), own.end());
    b.add(blocks, 1024 + 40);
  }
  b.add(blocks_from(500, 40), 640);
  const cpu::AttentionShape shape = {b.done(), 0, 2, 4, 16};
  for (const int threads : {1, 8}) {
    const auto once = reads(shape, threads, 1 << 20);
    EXPECT_EQ(once.size(), 2 + 5 + 2U);
    for (const auto& [key, count] : once) EXPECT_EQ(count, 1) << "block " << key.first;
    EXPECT_EQ(reads(shape, threads, 10).at({0, 0}), 5) << "nothing is shared without room for states";
  }
}

TEST(AttentionPlan, BranchesShareTheirCommonPrefix) {
  Batch b;
  const auto branch = [&b](std::vector<int32_t> blocks, int32_t from, int32_t length) {
    const std::vector<int32_t> own =
        blocks_from(from, (length + 15) / 16 - static_cast<int32_t>(blocks.size()));
    blocks.insert(blocks.end(), own.begin(), own.end());
    b.add(blocks, length);
  };
  branch(blocks_from(0, 32), 1000, 1100);
  branch(blocks_from(0, 96), 2000, 1600);
  branch(blocks_from(0, 32), 3000, 700);
  branch(blocks_from(0, 96), 4000, 1540);
  const auto once = reads({b.done(), 0, 2, 4, 16}, 1, 1 << 20);
  EXPECT_EQ(once.at({0, 0}), 1);
  EXPECT_EQ(once.at({32, 1}), 1);
  EXPECT_EQ(once.at({64, 2}), 1);
  EXPECT_EQ(once.size(), 3 + 2 + 1 + 1 + 1U);
}

TEST(AttentionPlan, DoesNotSharePartlyVisibleKvSplits) {
  Batch b;
  for (int32_t i = 0; i < 3; ++i) {
    std::vector<int32_t> blocks = blocks_from(0, 96);  // three splits
    const std::vector<int32_t> own = blocks_from(100 + 20 * i, 10);
    blocks.insert(blocks.end(), own.begin(), own.end());
    b.add(blocks, 1536 + 10 + 50 * i);
  }
  // The window begins in the second KV split, so only the third is fully visible.
  const auto seen = reads({b.done(), 700, 2, 4, 16}, 1, 1 << 20);
  EXPECT_EQ(seen.count({0, 0}), 0U);
  EXPECT_EQ(seen.at({32, 1}), 3);
  EXPECT_EQ(seen.at({64, 2}), 1);
}

TEST(AttentionPlan, DoesNotShareSequencesWithManyRows) {
  Batch b;
  b.add(blocks_from(0, 40), 600, 1);
  b.add(blocks_from(0, 40), 600, cpu::kMaxQueryRows / 4 + 1);
  EXPECT_EQ(reads({b.done(), 0, 2, 4, 16}, 1, 1 << 20).at({0, 0}), 2);
}

TEST(AttentionPlan, DividesAPromptIntoMorePiecesForMoreThreads) {
  Batch b;
  b.add(blocks_from(0, 24), 384, 384);
  const cpu::AttentionShape shape = {b.done(), 0, 2, 2, 16};
  std::vector<std::byte> memory(cpu::AttentionPlan::bytes(1));
  const auto pieces = [&](int threads) {
    return cpu::AttentionPlan(memory.data(), shape, threads, 1 << 20).num_pieces();
  };
  EXPECT_EQ(pieces(2), 2 * 4) << "two KV heads with 768 query rows each";
  EXPECT_EQ(pieces(4), 2 * 8);
  EXPECT_EQ(pieces(64), 2 * 16) << "pieces have a minimum size";
}

}  // namespace
}  // namespace quire
