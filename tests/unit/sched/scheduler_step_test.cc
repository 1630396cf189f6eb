// Contents of plans, and a sequence from its prompt to its end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/sched/fake_executor.h"

namespace quire::test {
namespace {

SchedulerConfig small_config() {
  SchedulerConfig config;
  config.max_num_seqs = 8;
  config.max_num_batched_tokens = 16;
  config.max_model_len = 200;
  return config;
}

TEST(SchedulerStep, SplitsALongPromptByTheTokenBudget) {
  Harness harness(small_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(40, 0), 2)).ok());
  for (const int32_t expected : {16, 16, 8, 1}) {
    const StepPlan& plan = harness.plan();
    ASSERT_EQ(plan.scheduled.size(), 1U);
    EXPECT_EQ(plan.scheduled[0].num_new_tokens, expected);
    EXPECT_EQ(plan.scheduled[0].sample, expected != 16);
    harness.compute();
  }
  harness.drain();
  harness.expect_idle();
  harness.expect_as_alone(0);
}

TEST(SchedulerStep, SplitsAPromptAtCheckpoints) {
  KvLayout layout = make_layout(64, 1);
  layout.groups = {{KvGroupKind::kState, 0, {}}};
  SchedulerConfig config = small_config();
  config.max_num_batched_tokens = 64;
  config.enable_prefix_caching = true;
  Harness harness(config, layout);
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(40, 0), 2)).ok());
  for (const int32_t expected : {16, 16, 8}) {  // a checkpoint every 16 blocks
    const StepPlan& plan = harness.plan();
    ASSERT_EQ(plan.scheduled.size(), 1U);
    EXPECT_EQ(plan.scheduled[0].num_new_tokens, expected);
    harness.compute();
  }
  harness.drain();
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(40, 0), 2)).ok());
  const StepPlan& plan = harness.plan();
  ASSERT_EQ(plan.scheduled.size(), 1U);
  EXPECT_EQ(plan.scheduled[0].num_computed_tokens, 32) << "the state at the last checkpoint is found";
  harness.compute();
  harness.drain();
  harness.expect_idle();
  harness.expect_as_alone(0);
  harness.expect_as_alone(1);
}

TEST(SchedulerStep, LimitsTheTokensOfOnePrompt) {
  SchedulerConfig config = small_config();
  config.long_prefill_token_threshold = 6;
  Harness harness(config, make_layout(64, 4));
  for (RequestId id = 0; id < 3; ++id) {
    ASSERT_TRUE(harness.add(make_request(id, make_prompt(20, static_cast<uint64_t>(id)), 2)).ok());
  }
  const StepPlan& plan = harness.plan();
  ASSERT_EQ(plan.scheduled.size(), 3U);
  EXPECT_EQ(plan.scheduled[0].num_new_tokens, 6);
  EXPECT_EQ(plan.scheduled[1].num_new_tokens, 6);
  EXPECT_EQ(plan.scheduled[2].num_new_tokens, 4);
  harness.compute();
  harness.drain();
  harness.expect_idle();
}

TEST(SchedulerStep, BatchesNewRequestsWithRunningOnes) {
  Harness harness(small_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(8, 0), 20)).ok());
  harness.step();
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(8, 1), 20)).ok());
  const StepPlan& plan = harness.plan();
  ASSERT_EQ(plan.scheduled.size(), 2U);
  EXPECT_EQ(plan.scheduled[0].num_new_tokens, 1);
  EXPECT_EQ(plan.scheduled[1].num_new_tokens, 8);
  harness.compute();
  harness.drain();
  harness.expect_as_alone(0);
  harness.expect_as_alone(1);
}

TEST(SchedulerStep, SchedulesInOrderOfArrival) {
  SchedulerConfig config = small_config();
  config.max_num_seqs = 2;
  Harness harness(config, make_layout(64, 4));
  std::vector<RequestId> started;
  for (RequestId id = 0; id < 6; ++id) {
    ASSERT_TRUE(harness.add(make_request(id, make_prompt(4 + static_cast<int32_t>(id), 9), 3)).ok());
  }
  while (harness.scheduler.has_work()) {
    const StepPlan plan = harness.scheduler.schedule();
    const CommitResult& result = harness.scheduler.commit(harness.executor.execute(plan));
    EXPECT_LE(plan.scheduled.size(), 2U);
    started.insert(started.end(), result.started.begin(), result.started.end());
  }
  EXPECT_THAT(started, ::testing::ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(SchedulerStep, DescribesASequenceOnceAndThenByDifferences) {
  Harness harness(small_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(7, 0), 10)).ok());
  harness.plan();
  ASSERT_EQ(harness.last_plan.inits.size(), 1U);
  EXPECT_EQ(harness.last_plan.inits[0].prompt_token_ids, make_prompt(7, 0));
  EXPECT_EQ(harness.last_plan.block_ids.size(), 2U);
  harness.compute();
  // 7 computed: the eighth token has its slot, the ninth needs a block.
  harness.plan();
  EXPECT_TRUE(harness.last_plan.inits.empty());
  EXPECT_TRUE(harness.last_plan.block_table_updates.empty());
  harness.compute();
  harness.plan();
  ASSERT_EQ(harness.last_plan.block_table_updates.size(), 1U);
  EXPECT_EQ(harness.last_plan.block_table_updates[0].first_index, 2);
  EXPECT_EQ(harness.last_plan.block_table_updates[0].count, 1);
  harness.compute();
  harness.drain();
  harness.expect_idle();
}

TEST(SchedulerStep, NeedsNoCommitForAnEmptyPlan) {
  Harness harness(small_config(), make_layout(64, 4));
  EXPECT_FALSE(harness.scheduler.has_work());
  EXPECT_TRUE(harness.scheduler.schedule().empty());
  EXPECT_TRUE(harness.scheduler.schedule().empty()) << "an empty plan needs no commit";
}

TEST(SchedulerStep, ListsFinishedSequencesInThePlan) {
  Harness harness(small_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(4, 0), 1)).ok());
  harness.step();
  EXPECT_TRUE(harness.requests[0].finished);
  EXPECT_TRUE(harness.scheduler.has_work());
  harness.step();
  EXPECT_EQ(harness.last_plan.finished.size(), 1U);
  EXPECT_TRUE(harness.last_plan.scheduled.empty());
  harness.expect_idle();
}

class EndOfText : public ::testing::Test {
 protected:
  // The tokens of a request without stop tokens.
  static std::vector<TokenId> free_run(Request request, int32_t count) {
    request.sampling.edit().max_tokens = count;
    return expected_sample(request, 0, 1000).token_ids;
  }
  Harness harness_{small_config(), make_layout(64, 4)};
};

TEST_F(EndOfText, ReportsNoStopTokenForAnEndToken) {
  Request request = make_request(0, make_prompt(5, 0), 50);
  const std::vector<TokenId> run = free_run(request, 50);
  request.end_token_ids = {run[3]};
  ASSERT_TRUE(harness_.add(request).ok());
  harness_.drain();
  const Harness::Sample& sample = harness_.requests[0].samples[0];
  EXPECT_EQ(sample.finish_reason, FinishReason::kStop);
  EXPECT_FALSE(sample.stop_token.has_value());
  EXPECT_EQ(sample.token_ids.back(), run[3]);
}

TEST_F(EndOfText, ReportsTheStopTokenEvenWithIgnoreEos) {
  Request request = make_request(0, make_prompt(5, 0), 50);
  const std::vector<TokenId> run = free_run(request, 50);
  request.end_token_ids = {run[2]};
  request.sampling.edit().stop_token_ids = {run[6]};
  request.sampling.edit().ignore_eos = true;
  ASSERT_TRUE(harness_.add(request).ok());
  harness_.drain();
  const Harness::Sample& sample = harness_.requests[0].samples[0];
  EXPECT_EQ(sample.finish_reason, FinishReason::kStop);
  EXPECT_EQ(sample.stop_token, run[6]);
}

TEST_F(EndOfText, ReportsLengthAtMaxTokens) {
  ASSERT_TRUE(harness_.add(make_request(0, make_prompt(5, 0), 7)).ok());
  harness_.drain();
  EXPECT_EQ(harness_.requests[0].samples[0].finish_reason, FinishReason::kLength);
  EXPECT_EQ(harness_.requests[0].samples[0].token_ids.size(), 7U);
}

TEST_F(EndOfText, ReportsLengthAtMaxModelLen) {
  ASSERT_TRUE(harness_.add(make_request(0, make_prompt(190, 0), 50)).ok());
  harness_.drain();
  EXPECT_EQ(harness_.requests[0].samples[0].finish_reason, FinishReason::kLength);
  EXPECT_EQ(harness_.requests[0].samples[0].token_ids.size(), 10U);
}

TEST_F(EndOfText, MasksStopTokensBeforeMinTokens) {
  Request request = make_request(0, make_prompt(5, 0), 40);
  for (TokenId token = 0; token < kVocabulary / 2; ++token) request.end_token_ids.push_back(token);
  request.sampling.edit().min_tokens = 12;
  ASSERT_TRUE(harness_.add(request).ok());
  harness_.drain();
  EXPECT_GT(harness_.requests[0].samples[0].token_ids.size(), 12U);
  EXPECT_EQ(harness_.requests[0].samples[0].finish_reason, FinishReason::kStop);
  harness_.expect_as_alone(0);
}

TEST_F(EndOfText, SamplesNothingIfOnlyThePromptIsScored) {
  Request request = make_request(0, make_prompt(37, 0), 0, 2);
  request.sampling.edit().prompt_logprobs = 1;
  ASSERT_TRUE(harness_.add(request).ok());
  harness_.drain();
  const Harness::Record& done = harness_.requests[0];
  EXPECT_TRUE(done.finished);
  for (const Harness::Sample& sample : done.samples) {
    EXPECT_TRUE(sample.token_ids.empty());
    EXPECT_EQ(sample.finish_reason, FinishReason::kLength);
  }
  EXPECT_EQ(done.num_prompt_logprobs, 36);
  harness_.expect_idle();
}

TEST(SchedulerFailure, EndsOnlyItsRequest) {
  Harness harness(small_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(6, 0), 10)).ok());
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(6, 1), 10, 2)).ok());
  harness.step();
  harness.plan();
  harness.executor.fail_next = {harness.last_plan.scheduled[1].seq};
  harness.compute();
  harness.drain();
  harness.expect_as_alone(0);
  for (const Harness::Sample& sample : harness.requests[1].samples) {
    EXPECT_EQ(sample.finish_reason, FinishReason::kError);
    EXPECT_EQ(sample.error, "the logits are not numbers");
  }
  EXPECT_TRUE(harness.requests[1].finished);
  harness.expect_idle();
}

TEST(SchedulerFailure, CachesNothingOfAFailedStep) {
  Harness harness(small_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(16, 0), 10)).ok());
  harness.plan();
  harness.executor.fail_next = {harness.last_plan.scheduled[0].seq};
  harness.compute();
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(16, 0), 10)).ok());
  harness.drain();
  EXPECT_EQ(harness.scheduler.stats().prefix_hit_tokens, 0);
  harness.expect_as_alone(1);
}

TEST(SchedulerFailure, EndsARequestWithAMissingToken) {
  Harness harness(small_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(6, 0), 10)).ok());
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(6, 1), 10)).ok());
  harness.plan();
  harness.executor.silent = {harness.last_plan.scheduled[0].seq};
  harness.compute();
  harness.drain();
  EXPECT_EQ(harness.requests[0].samples[0].finish_reason, FinishReason::kError);
  harness.expect_as_alone(1);
  harness.expect_idle();
}

TEST(SchedulerFailure, EndsSamplesThatWereNotForked) {
  Harness harness(small_config(), make_layout(64, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(6, 0), 10, 3)).ok());
  harness.plan();
  harness.executor.silent = {harness.last_plan.scheduled[0].seq};
  harness.compute();
  harness.drain();
  EXPECT_TRUE(harness.requests[0].finished);
  for (const Harness::Sample& sample : harness.requests[0].samples) {
    EXPECT_EQ(sample.finish_reason, FinishReason::kError);
  }
  harness.expect_idle();
}

}  // namespace
}  // namespace quire::test
