// Requests that are swapped to the host pool and back, or load a prefix from the disk.
#include <gtest/gtest.h>

#include "unit/sched/fake_executor.h"

namespace quire::test {
namespace {

SchedulerConfig tier_config(PreemptionMode mode) {
  SchedulerConfig config;
  config.max_num_seqs = 8;
  config.max_num_batched_tokens = 64;
  config.max_model_len = 200;
  config.preemption_mode = mode;
  config.enable_prefix_caching = false;
  return config;
}

KvLayout tier_layout(int32_t num_blocks, int32_t num_host_blocks) {
  KvLayout layout = make_layout(num_blocks, 4);
  layout.num_host_blocks = num_host_blocks;
  return layout;
}

// Two requests, of which the second is preempted; returns the tokens computed until both are done.
int64_t tokens_of_two(Harness& harness, int32_t n) {
  EXPECT_TRUE(harness.add(make_request(0, make_prompt(16, 0), 17)).ok());
  EXPECT_TRUE(harness.add(make_request(1, make_prompt(16, 1), 17, n)).ok());
  harness.drain();
  harness.expect_as_alone(0);
  harness.expect_as_alone(1);
  harness.expect_idle();
  return harness.scheduler.stats().num_computed_tokens;
}

TEST(SchedulerSwap, RecomputesNothing) {
  Harness swaps(tier_config(PreemptionMode::kSwap), tier_layout(12, 20));
  EXPECT_EQ(tokens_of_two(swaps, 1), 2 * 32);
  EXPECT_EQ(swaps.scheduler.stats().num_preemptions, 1);
  EXPECT_EQ(swaps.scheduler.stats().num_swap_outs, 1);
  EXPECT_EQ(swaps.scheduler.stats().num_swap_ins, 1);
  Harness recomputes(tier_config(PreemptionMode::kRecompute), tier_layout(12, 20));
  EXPECT_GT(tokens_of_two(recomputes, 1), 2 * 32);
  EXPECT_EQ(recomputes.scheduler.stats().num_swap_outs, 0);
}

TEST(SchedulerSwap, MovesAllSamplesOfARequest) {
  Harness harness(tier_config(PreemptionMode::kSwap), tier_layout(18, 40));
  EXPECT_EQ(tokens_of_two(harness, 3), 32 + 16 + 3 * 16);
  EXPECT_EQ(harness.scheduler.stats().num_swap_outs, 1);
}

TEST(SchedulerSwap, RecomputesIfTheHostPoolIsFull) {
  Harness harness(tier_config(PreemptionMode::kSwap), tier_layout(12, 2));
  EXPECT_GT(tokens_of_two(harness, 1), 2 * 32);
  EXPECT_EQ(harness.scheduler.stats().num_preemptions, 1);
  EXPECT_EQ(harness.scheduler.stats().num_swap_outs, 0);
}

TEST(SchedulerSwap, AutoSelectsTheCheaperMode) {
  // Recomputing takes 1 ms per token. Swapping a block of 4 tokens copies 2 * bytes at 4 GB/s.
  for (const int64_t bytes : {1'000'000, 100'000'000}) {
    KvLayout layout = tier_layout(12, 20);
    layout.bytes_per_block = bytes;
    Harness harness(tier_config(PreemptionMode::kAuto), layout);
    harness.seconds_step = 0.001;
    harness.seconds_token = 0.001;
    tokens_of_two(harness, 1);
    EXPECT_EQ(harness.scheduler.stats().num_preemptions, 1);
    EXPECT_EQ(harness.scheduler.stats().num_swap_outs, bytes == 1'000'000 ? 1 : 0) << bytes;
  }
}

TEST(SchedulerSwap, FreesHostBlocksOfAnAbortedRequest) {
  Harness harness(tier_config(PreemptionMode::kSwap), tier_layout(12, 20));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(16, 0), 17)).ok());
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(16, 1), 17)).ok());
  while (harness.scheduler.stats().num_preemptions == 0) harness.step();
  EXPECT_GT(harness.scheduler.stats().kv.host.num_used, 0);
  harness.abort(1);
  EXPECT_EQ(harness.scheduler.stats().kv.host.num_used, 0);
  harness.scheduler.check_integrity();
  harness.drain();
  harness.expect_as_alone(0);
  harness.expect_idle();
}

class SchedulerDisk : public ::testing::Test {
 protected:
  SchedulerDisk() {
    config_ = tier_config(PreemptionMode::kRecompute);
    config_.enable_prefix_caching = true;
    layout_ = tier_layout(12, 4);
    layout_.num_disk_blocks = 64;
  }
  // Puts the prompt of 40 tokens on the disk and nowhere else.
  static void fill_disk(Harness& harness) {
    ASSERT_TRUE(harness.add(make_request(0, make_prompt(40, 0), 2)).ok());
    harness.drain();
    for (RequestId id = 1; id < 4; ++id) {
      ASSERT_TRUE(harness.add(make_request(id, make_prompt(44, static_cast<uint64_t>(id)), 2)).ok());
      harness.drain();
    }
    ASSERT_GT(harness.scheduler.stats().kv.num_disk_writes, 10);
  }
  SchedulerConfig config_;
  KvLayout layout_;
};

TEST_F(SchedulerDisk, RunsOtherRequestsDuringAReadFromDisk) {
  Harness harness(config_, layout_);
  fill_disk(harness);
  ASSERT_TRUE(harness.add(make_request(10, make_prompt(40, 0), 3)).ok());
  ASSERT_TRUE(harness.add(make_request(11, make_prompt(6, 77), 3)).ok());
  harness.plan();
  EXPECT_FALSE(harness.last_plan.disk_reads.empty());
  ASSERT_EQ(harness.last_plan.scheduled.size(), 1U);
  EXPECT_EQ(harness.last_plan.scheduled[0].num_new_tokens, 6) << "the second does not wait";
  EXPECT_EQ(harness.scheduler.stats().num_loading, 1);
  harness.compute();
  harness.drain();
  EXPECT_GT(harness.scheduler.stats().prefix_hit_tokens, 0);
  harness.expect_as_alone(10);
  harness.expect_as_alone(11);
  harness.expect_idle();
}

TEST_F(SchedulerDisk, UsesAShorterPrefixAfterAFailedRead) {
  Harness harness(config_, layout_);
  fill_disk(harness);
  harness.executor.disk_failures = 10;
  ASSERT_TRUE(harness.add(make_request(10, make_prompt(40, 0), 3)).ok());
  harness.step();
  EXPECT_TRUE(harness.scheduler.has_work()) << "a read is outstanding";
  harness.drain();
  EXPECT_GT(harness.scheduler.stats().kv.num_disk_reads_failed, 0);
  EXPECT_EQ(harness.scheduler.stats().prefix_hit_tokens, 0);
  harness.expect_as_alone(10);
  harness.expect_idle();
}

TEST_F(SchedulerDisk, FreesTheBlocksOfARequestAbortedDuringARead) {
  Harness harness(config_, layout_);
  fill_disk(harness);
  ASSERT_TRUE(harness.add(make_request(10, make_prompt(40, 0), 3)).ok());
  harness.plan();
  EXPECT_EQ(harness.scheduler.stats().num_loading, 1);
  harness.abort(10);
  EXPECT_EQ(harness.scheduler.stats().num_loading, 0);
  harness.scheduler.check_integrity();
  harness.compute();
  while (harness.executor.disk_busy()) harness.step();
  harness.drain();
  harness.expect_idle();
}

}  // namespace
}  // namespace quire::test
