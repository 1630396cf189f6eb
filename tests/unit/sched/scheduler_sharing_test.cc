// Samples that share a prompt, prefixes that share blocks, preemption, and aborts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/sched/fake_executor.h"

namespace quire::test {
namespace {

SchedulerConfig sharing_config() {
  SchedulerConfig config;
  config.max_num_seqs = 8;
  config.max_num_batched_tokens = 64;
  config.max_model_len = 200;
  return config;
}

TEST(SchedulerSamples, ShareTheirPromptAndCopyItsLastBlockOnWriting) {
  Harness harness(sharing_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(10, 0), 6, 3)).ok());
  harness.step();
  EXPECT_EQ(harness.last_plan.num_tokens, 10) << "the prompt is computed once";
  EXPECT_EQ(harness.scheduler.stats().kv.num_used, 3) << "three samples hold the same blocks";
  EXPECT_EQ(harness.scheduler.stats().num_running, 3);
  harness.plan();
  // Two of three copy the block; the last one to write is its only owner.
  ASSERT_EQ(harness.last_plan.copies.size(), 2U);
  EXPECT_EQ(harness.last_plan.copies[0].src, harness.last_plan.copies[1].src);
  EXPECT_EQ(harness.last_plan.scheduled.size(), 3U);
  harness.compute();
  EXPECT_EQ(harness.scheduler.stats().kv.num_used, 5);
  harness.drain();
  harness.expect_as_alone(0);
  harness.expect_idle();
}

TEST(SchedulerSamples, CopyNothingWhenThePromptFillsItsBlocks) {
  Harness harness(sharing_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(12, 0), 6, 3)).ok());
  harness.step();
  harness.plan();
  EXPECT_TRUE(harness.last_plan.copies.empty());
  harness.compute();
  harness.drain();
  harness.expect_as_alone(0);
}

TEST(SchedulerSamples, ReserveTheirSlotsBeforeTheFork) {
  SchedulerConfig config = sharing_config();
  config.max_num_seqs = 4;
  config.max_num_batched_tokens = 8;
  Harness harness(config, make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(20, 0), 6, 3)).ok());
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(3, 1), 6, 2)).ok());
  harness.step();
  harness.step();
  harness.step();
  EXPECT_EQ(harness.scheduler.stats().num_running, 3);
  EXPECT_EQ(harness.scheduler.stats().num_waiting, 1);
  harness.drain();
  harness.expect_as_alone(0);
  harness.expect_as_alone(1);
}

TEST(SchedulerSamples, RunOneByOneIfThePoolFitsOnlyOne) {
  Harness harness(sharing_config(), make_layout(10, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(22, 0), 19, 4)).ok());
  harness.drain(1000);
  harness.expect_as_alone(0);
  EXPECT_GT(harness.scheduler.stats().num_preemptions, 0);
  harness.expect_idle();
}

TEST(SchedulerSamples, EndIndependently) {
  Harness harness(sharing_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(10, 0), 12, 3)).ok());
  harness.step();
  harness.step();
  harness.finish(0, 0);
  harness.step();
  harness.plan();
  harness.finish(0, 2);
  harness.compute();
  harness.drain();
  EXPECT_TRUE(harness.requests[0].finished);
  harness.expect_as_alone(0);
  harness.expect_idle();
}

TEST(SchedulerSamples, AreForkedAfterTheFirstHasEnded) {
  SchedulerConfig config = sharing_config();
  config.max_num_batched_tokens = 4;
  Harness harness(config, make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(10, 0), 12, 2)).ok());
  harness.step();
  harness.finish(0, 0);
  harness.finish(0, 0);
  harness.drain();
  EXPECT_TRUE(harness.requests[0].finished);
  harness.expect_as_alone(0);
  harness.expect_idle();
}

TEST(SchedulerSamples, AreRemovedIfTheRequestIsAbortedDuringTheFork) {
  Harness harness(sharing_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(10, 0), 12, 3)).ok());
  harness.plan();
  harness.abort(0);
  EXPECT_EQ(harness.scheduler.stats().kv.num_used, 3) << "the executor still writes there";
  harness.compute();
  EXPECT_EQ(harness.executor.num_sequences(), 3U);
  EXPECT_EQ(harness.scheduler.stats().kv.num_used, 0);
  harness.drain();
  harness.expect_idle();
}

TEST(SchedulerPrefix, ReusesFullBlocksOfAnEarlierPrompt) {
  Harness harness(sharing_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(19, 0), 3)).ok());
  harness.drain();
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(19, 0), 3)).ok());
  harness.plan();
  EXPECT_EQ(harness.last_plan.scheduled[0].num_computed_tokens, 16);
  EXPECT_EQ(harness.last_plan.scheduled[0].num_new_tokens, 3);
  EXPECT_EQ(harness.scheduler.num_cached_tokens(1), 16);
  harness.compute();
  harness.drain();
  EXPECT_EQ(harness.scheduler.stats().prefix_queried_tokens, 38);
  EXPECT_EQ(harness.scheduler.stats().prefix_hit_tokens, 16);
  harness.expect_as_alone(1);
}

TEST(SchedulerPrefix, IsCountedForARequestThatEndsInItsFirstStep) {
  Harness harness(sharing_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(19, 0), 1)).ok());
  harness.drain();
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(19, 0), 1)).ok());
  harness.step();
  EXPECT_TRUE(harness.requests[1].finished);
  EXPECT_EQ(harness.scheduler.num_cached_tokens(1), 16);
  harness.drain();
}

TEST(SchedulerPrefix, AlwaysComputesTheLastToken) {
  Harness harness(sharing_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(16, 0), 3)).ok());
  harness.drain();
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(16, 0), 3)).ok());
  harness.plan();
  EXPECT_EQ(harness.last_plan.scheduled[0].num_computed_tokens, 12);
  harness.compute();
  harness.drain();
  harness.expect_as_alone(1);
}

TEST(SchedulerPrefix, IncludesGeneratedTokens) {
  Harness harness(sharing_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(8, 0), 13)).ok());
  harness.drain();
  std::vector<TokenId> second = make_prompt(8, 0);
  const std::vector<TokenId>& generated = harness.requests[0].samples[0].token_ids;
  second.insert(second.end(), generated.begin(), generated.end());
  ASSERT_TRUE(harness.add(make_request(1, second, 3)).ok());
  harness.drain();
  // 21 tokens, of which the last was sampled but not computed: five blocks.
  EXPECT_EQ(harness.scheduler.stats().prefix_hit_tokens, 20);
  harness.expect_as_alone(1);
}

TEST(SchedulerPrefix, IsNotUsedBeforeItIsComputed) {
  Harness harness(sharing_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(16, 0), 3)).ok());
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(16, 0), 3)).ok());
  harness.plan();
  ASSERT_EQ(harness.last_plan.scheduled.size(), 2U);
  EXPECT_EQ(harness.last_plan.scheduled[1].num_new_tokens, 16);
  harness.compute();
  harness.drain();
}

TEST(SchedulerPrefix, IsNotSharedAcrossAdaptersOrSalts) {
  Harness harness(sharing_config(), make_layout(64, 4));
  for (RequestId id = 0; id < 4; ++id) {
    Request request = make_request(id, make_prompt(16, 0), 3);
    if (id % 2 == 1) request.adapter = {.id = 1, .digest = "a"};
    request.cache_salt = id < 2 ? "" : "tenant";
    ASSERT_TRUE(harness.add(request).ok());
    harness.drain();
  }
  EXPECT_EQ(harness.scheduler.stats().prefix_hit_tokens, 0);
}

TEST(SchedulerPrefix, IsNotUsedForPromptLogprobsOrIfDisabled) {
  Harness harness(sharing_config(), make_layout(64, 4));
  for (RequestId id = 0; id < 2; ++id) {
    Request request = make_request(id, make_prompt(16, 0), 3);
    request.sampling.edit().prompt_logprobs = 0;
    ASSERT_TRUE(harness.add(request).ok());
    harness.drain();
    EXPECT_EQ(harness.requests[id].num_prompt_logprobs, 15);
  }
  EXPECT_EQ(harness.scheduler.stats().prefix_hit_tokens, 0);

  SchedulerConfig config = sharing_config();
  config.enable_prefix_caching = false;
  Harness uncached(config, make_layout(64, 4));
  for (RequestId id = 0; id < 2; ++id) {
    ASSERT_TRUE(uncached.add(make_request(id, make_prompt(16, 0), 3)).ok());
    uncached.drain();
    uncached.expect_as_alone(id);
  }
  EXPECT_EQ(uncached.scheduler.stats().prefix_queried_tokens, 0);
  EXPECT_EQ(uncached.scheduler.stats().kv.num_cached, 0);
}

TEST(SchedulerPrefix, IsRemovedOnReset) {
  Harness harness(sharing_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(16, 0), 30)).ok());
  harness.step();
  EXPECT_FALSE(harness.scheduler.reset_prefix_cache()) << "a request still runs";
  harness.drain();
  EXPECT_EQ(harness.scheduler.stats().kv.num_cached, 0) << "what ran across the reset is not served";
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(16, 0), 3)).ok());
  harness.drain();
  EXPECT_EQ(harness.scheduler.stats().prefix_hit_tokens, 0);
  EXPECT_TRUE(harness.scheduler.reset_prefix_cache());
}

TEST(SchedulerPreemption, PreemptsTheLastRequestAndContinuesTheOldest) {
  // Each needs 8 blocks in the end; the pool has 12.
  Harness harness(sharing_config(), make_layout(12, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(16, 0), 17)).ok());
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(16, 1), 17)).ok());
  int32_t progress = 0;
  while (harness.scheduler.has_work()) {
    harness.step();
    const int32_t now = static_cast<int32_t>(harness.requests[0].samples[0].token_ids.size());
    if (!harness.requests[0].finished) {
      EXPECT_GT(now, progress) << "the oldest advances at every step";
    }
    progress = now;
  }
  EXPECT_EQ(harness.scheduler.stats().num_preemptions, 1);
  harness.expect_as_alone(0);
  harness.expect_as_alone(1);
  harness.expect_idle();
}

TEST(SchedulerPreemption, KeepsTheExecutorsStateAndRewritesTheTable) {
  Harness harness(sharing_config(), make_layout(12, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(16, 0), 17)).ok());
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(16, 1), 17)).ok());
  while (harness.scheduler.stats().num_preemptions == 0) harness.step();
  EXPECT_EQ(harness.scheduler.stats().num_waiting, 1);
  EXPECT_EQ(harness.executor.num_sequences(), 2U);
  while (harness.scheduler.stats().num_waiting > 0) harness.step();
  EXPECT_TRUE(harness.last_plan.inits.empty());
  ASSERT_FALSE(harness.last_plan.block_table_updates.empty());
  EXPECT_EQ(harness.last_plan.block_table_updates.back().first_index, 0);
  harness.drain();
  harness.expect_as_alone(1);
}

TEST(SchedulerPreemption, NeverLivelocksInAPoolForOneSequence) {
  SchedulerConfig config = sharing_config();
  config.max_num_batched_tokens = 7;
  Harness harness(config, make_layout(9, 4));
  for (RequestId id = 0; id < 12; ++id) {
    ASSERT_TRUE(
        harness.add(make_request(id, make_prompt(17, static_cast<uint64_t>(id)), 20, 1 + id % 3)).ok());
  }
  harness.drain(3000);
  for (RequestId id = 0; id < 12; ++id) harness.expect_as_alone(id);
  harness.expect_idle();
}

TEST(SchedulerAbort, FreesBlocksThatAreNotInFlightImmediately) {
  Harness harness(sharing_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(16, 0), 17)).ok());
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(16, 1), 17)).ok());
  harness.step();
  harness.abort(0);
  EXPECT_EQ(harness.scheduler.stats().kv.num_used, 4);
  harness.scheduler.check_integrity();
  harness.drain();
  harness.expect_as_alone(1);
  harness.expect_idle();
}

TEST(SchedulerAbort, IgnoresResultsInFlight) {
  Harness harness(sharing_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(16, 0), 17)).ok());
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(16, 1), 17)).ok());
  harness.step();
  harness.plan();
  harness.abort(0);
  harness.compute();
  EXPECT_EQ(harness.requests[0].samples[0].token_ids.size(), 1U);
  harness.drain();
  harness.expect_as_alone(1);
  harness.expect_idle();
}

TEST(SchedulerAbort, RemovesAWaitingRequestAndIgnoresAnUnknownOne) {
  SchedulerConfig config = sharing_config();
  config.max_num_seqs = 1;
  Harness harness(config, make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(16, 0), 5)).ok());
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(16, 1), 5)).ok());
  harness.step();
  harness.abort(1);
  harness.scheduler.abort_request(77);
  harness.scheduler.finish_sequence(77, 0);
  harness.scheduler.finish_sequence(0, 5);
  EXPECT_EQ(harness.scheduler.stats().num_waiting, 0);
  harness.drain();
  harness.expect_as_alone(0);
  harness.expect_idle();
}

}  // namespace
}  // namespace quire::test
