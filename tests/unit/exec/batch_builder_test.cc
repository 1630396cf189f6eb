#include "exec/batch_builder.h"

#include <gtest/gtest.h>

#include "backends/cpu/cpu_device.h"
#include "base/error.h"

namespace quire {
namespace {

std::vector<int32_t> list(std::span<const int32_t> values) {
  return {values.begin(), values.end()};
}

class BatchBuilderTest : public testing::Test {
 protected:
  void learn(SeqId seq, std::vector<TokenId> tokens, const std::vector<BlockId>& blocks,
             SamplingParams params = {}) {
    StepPlan plan;
    SequenceInit init;
    init.seq = seq;
    init.prompt_token_ids = std::move(tokens);
    init.sampling = std::move(params);
    plan.inits.push_back(init);
    plan.block_ids = blocks;
    plan.block_table_updates.push_back({seq, 0, 0, 0, static_cast<int32_t>(blocks.size())});
    sequences_.apply(plan);
  }
  KvLayout layout_ = [] {
    KvLayout layout;
    layout.block_size = 4;
    return layout;
  }();
  SequenceStore sequences_{1, 100};
  CpuDevice device_{1};
  std::unique_ptr<DeviceStream> stream_ = device_.create_stream();
  BatchBuilder builder_{device_, layout_};
};

TEST_F(BatchBuilderTest, ConcatenatesSequences) {
  learn(1, {10, 11, 12, 13, 14, 15}, {7, 3});
  learn(2, {20, 21}, {5});
  StepPlan plan;
  plan.scheduled = {{1, 2, 4, true}, {2, 0, 1, false}};
  builder_.build(plan, sequences_, *stream_, {});
  const ForwardBatch& batch = builder_.batch();
  EXPECT_EQ(list(batch.token_ids), (std::vector<int32_t>{12, 13, 14, 15, 20}));
  EXPECT_EQ(list(batch.positions), (std::vector<int32_t>{2, 3, 4, 5, 0}));
  EXPECT_EQ(std::vector<int64_t>(batch.slot_mapping.begin(), batch.slot_mapping.end()),
            (std::vector<int64_t>{30, 31, 12, 13, 20}));
  EXPECT_EQ(list(batch.attention.cu_seqlens_q), (std::vector<int32_t>{0, 4, 5}));
  EXPECT_EQ(list(batch.attention.seq_lens), (std::vector<int32_t>{6, 1}));
  EXPECT_EQ(list(batch.attention.block_table_indptr), (std::vector<int32_t>{0, 2, 3}));
  EXPECT_EQ(list(batch.attention.block_table), (std::vector<int32_t>{7, 3, 5}));
}

TEST_F(BatchBuilderTest, FindsSequencesThatReadTheSameBlocks) {
  learn(1, {10, 11, 12, 13, 14, 15}, {7, 3});
  learn(2, {20, 21}, {5});
  learn(3, {10, 11, 12, 13, 16}, {7, 4});
  StepPlan plan;
  plan.scheduled = {{1, 5, 1, true}, {2, 1, 1, true}, {3, 4, 1, true}};
  builder_.build(plan, sequences_, *stream_, {});
  EXPECT_EQ(list(builder_.batch().attention.shared_order), (std::vector<int32_t>{1, 0, 2}));
  EXPECT_EQ(list(builder_.batch().attention.shared_blocks), (std::vector<int32_t>{0, 1, 0}));
}

TEST_F(BatchBuilderTest, RequestsLogitsOnlyAtTheEndOfASamplingChunk) {
  learn(1, {10, 11, 12}, {0});
  learn(2, {20, 21, 22}, {1});
  StepPlan plan;
  plan.scheduled = {{1, 0, 3, true}, {2, 0, 2, false}};
  builder_.build(plan, sequences_, *stream_, {});
  ASSERT_EQ(builder_.logit_rows().size(), 1U);
  EXPECT_EQ(builder_.logit_rows()[0].row, 2);
  EXPECT_TRUE(builder_.logit_rows()[0].sample);
}

TEST_F(BatchBuilderTest, RequestsLogitsOfPromptRowsForPromptLogprobs) {
  SamplingParams params;
  params.prompt_logprobs = 0;
  learn(1, {10, 11, 12}, {0}, params);
  StepPlan plan;
  plan.scheduled = {{1, 0, 3, true}};
  builder_.build(plan, sequences_, *stream_, {});
  const auto rows = builder_.logit_rows();
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_TRUE(rows[0].prompt && rows[1].prompt && !rows[2].prompt);
  EXPECT_TRUE(!rows[0].sample && !rows[1].sample && rows[2].sample);
}

TEST_F(BatchBuilderTest, RejectsPlansBeyondTheTokensOrBlocks) {
  learn(1, {10, 11, 12, 13, 14}, {0});
  StepPlan plan;
  plan.scheduled = {{1, 0, 5, false}};
  EXPECT_THROW(builder_.build(plan, sequences_, *stream_, {}), Error);
  plan.scheduled = {{1, 0, 9, false}};
  EXPECT_THROW(builder_.build(plan, sequences_, *stream_, {}), Error);
  plan.scheduled = {{9, 0, 1, false}};
  EXPECT_THROW(builder_.build(plan, sequences_, *stream_, {}), Error);
}

TEST_F(BatchBuilderTest, KeepsBlockTablesPerGroup) {
  KvLayout layout = layout_;
  layout.groups = {{KvGroupKind::kFull, 0, {1}}, {KvGroupKind::kSlidingWindow, 4, {0, 2}}};
  SequenceStore sequences(2, 100);
  BatchBuilder builder(device_, layout);
  StepPlan plan;
  plan.inits.emplace_back().seq = 1;
  plan.inits.back().prompt_token_ids = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
  plan.block_ids = {7, 3, 5, -1, 2, 9};
  plan.block_table_updates = {{1, 0, 0, 0, 3}, {1, 1, 0, 3, 3}};
  sequences.apply(plan);
  plan = {};
  plan.scheduled = {{1, 7, 3, true}};
  const std::vector<KvCacheView> kv(3);
  builder.build(plan, sequences, *stream_, kv);
  const ForwardBatch& batch = builder.batch();
  EXPECT_EQ(list(builder.kv_groups().group_of_layer), (std::vector<int32_t>{1, 0, 1}));
  for (const size_t layer : {0, 1, 2}) {
    SCOPED_TRACE(layer);
    const ForwardBatch own = builder.kv_groups().select(batch, layer);
    const bool full = layer == 1;
    EXPECT_EQ(std::vector<int64_t>(own.slot_mapping.begin(), own.slot_mapping.end()),
              full ? (std::vector<int64_t>{15, 20, 21}) : (std::vector<int64_t>{11, 36, 37}));
    EXPECT_EQ(list(own.attention.block_table),
              full ? (std::vector<int32_t>{7, 3, 5}) : (std::vector<int32_t>{-1, 2, 9}));
    EXPECT_EQ(list(own.attention.seq_lens), (std::vector<int32_t>{10}));
    EXPECT_EQ(own.kv.size(), 3U);
  }
}

TEST_F(BatchBuilderTest, FillsAStepTableOncePerGroup) {
  KvLayout layout = layout_;
  layout.groups = {{KvGroupKind::kFull, 0, {1}}, {KvGroupKind::kSlidingWindow, 4, {0, 2}}};
  int num_fills = 0;
  const StepTable slots = {
      .name = "slots", .per_token = 1, .fill_wide = [&](const HostBatch& batch, std::span<int64_t> out) {
        ++num_fills;
        std::ranges::copy(batch.slot_mapping, out.begin());
      }};
  const StepTable lengths = {
      .name = "lengths", .per_sequence = 1, .fill = [](const HostBatch& batch, std::span<int32_t> out) {
        std::ranges::copy(batch.seq_lens, out.begin());
      }};
  BatchBuilder builder(device_, layout, {{0, slots}, {1, slots}, {2, slots}, {2, lengths}});
  SequenceStore sequences(2, 100);
  StepPlan plan;
  plan.inits.emplace_back().seq = 1;
  plan.inits.back().prompt_token_ids = {10, 11, 12, 13, 14};
  plan.block_ids = {7, 3, 2, 9};
  plan.block_table_updates = {{1, 0, 0, 0, 2}, {1, 1, 0, 2, 2}};
  sequences.apply(plan);
  plan = {};
  plan.scheduled = {{1, 3, 2, true}};
  builder.build(plan, sequences, *stream_, {});
  const auto tables = builder.batch().tables;
  ASSERT_EQ(tables.size(), 4U);
  const auto wide = [&](size_t i) {
    return std::vector<int64_t>(tables[i].wide.begin(), tables[i].wide.end());
  };
  EXPECT_EQ(wide(0), (std::vector<int64_t>{11, 36}));
  EXPECT_EQ(wide(1), (std::vector<int64_t>{31, 12}));
  EXPECT_EQ(wide(2), wide(0));
  EXPECT_EQ(list(tables[3].narrow), (std::vector<int32_t>{5}));
  EXPECT_EQ(num_fills, 2);
}

TEST_F(BatchBuilderTest, TruncatesAndAppendsTables) {
  learn(1, {1, 2, 3, 4, 5, 6, 7, 8}, {4, 5});
  StepPlan plan;
  plan.block_ids = {9, 8};
  plan.block_table_updates = {{1, 0, 1, 0, 1}, {1, 0, 2, 1, 1}};
  sequences_.apply(plan);
  EXPECT_EQ(sequences_.at(1).block_tables[0], (std::vector<BlockId>{4, 9, 8}));
}

TEST_F(BatchBuilderTest, SharesTheParentsTokensAfterAFork) {
  learn(1, {1, 2, 3}, {4});
  sequences_.fork(1, 2, 1);
  EXPECT_EQ(sequences_.at(2).tokens, sequences_.at(1).tokens);
  EXPECT_EQ(sequences_.at(2).block_tables, sequences_.at(1).block_tables);
  StepPlan plan;
  plan.finished = {1};
  sequences_.apply(plan);
  EXPECT_EQ(sequences_.size(), 1U);
  EXPECT_THROW(sequences_.at(1), Error);
}

}  // namespace
}  // namespace quire
