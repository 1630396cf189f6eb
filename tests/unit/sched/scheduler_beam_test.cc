// Beam searches: sequences that are sampled together, forked, dropped and reused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/sched/fake_executor.h"

namespace quire::test {
namespace {

using ::testing::HasSubstr;

SchedulerConfig beam_config() {
  SchedulerConfig config;
  config.max_num_seqs = 8;
  config.max_num_batched_tokens = 64;
  config.max_model_len = 200;
  return config;
}

Request beam_request(RequestId id, int32_t prompt_size, int32_t max_tokens, int32_t n, int32_t width) {
  Request request = make_request(id, make_prompt(prompt_size, static_cast<uint64_t>(id)), max_tokens, n);
  request.sampling.edit().use_beam_search = true;
  request.sampling.edit().beam_width = width;
  return request;
}

// A seed with which the search of the request takes at least num_steps steps.
void make_long(Request& request, size_t num_tokens) {
  for (request.seed = 0;; ++request.seed) {
    const std::vector<BeamHypothesis> texts = expected_beams(request, 200);
    if (texts.front().token_ids.size() >= num_tokens) return;
  }
}

TEST(SchedulerBeams, ReturnAllHypothesesOnce) {
  Harness harness(beam_config(), make_layout(128, 4));
  Request request = beam_request(0, 10, 20, 2, 4);
  make_long(request, 10);
  ASSERT_TRUE(harness.add(request).ok());
  harness.step();
  EXPECT_EQ(harness.last_plan.num_tokens, 10) << "the prompt is computed once";
  harness.drain();
  EXPECT_TRUE(harness.requests[0].finished);
  EXPECT_EQ(harness.requests[0].beams.size(), 2U);
  harness.expect_as_alone(0);
  harness.expect_idle();
}

TEST(SchedulerBeams, AreSampledTogetherOrNotAtAll) {
  SchedulerConfig config = beam_config();
  config.max_num_batched_tokens = 6;
  Harness harness(config, make_layout(128, 4));
  Request request = beam_request(1, 10, 30, 2, 4);
  make_long(request, 12);
  // Three sequences that decode before it leave three tokens per step for four beams.
  for (const RequestId id : {10, 11, 12})
    ASSERT_TRUE(harness.add(make_request(id, make_prompt(2, static_cast<uint64_t>(id)), 40)).ok());
  harness.step();
  ASSERT_TRUE(harness.add(request).ok());
  harness.drain();
  for (const RequestId id : {1, 10, 11, 12}) harness.expect_as_alone(id);
  harness.expect_idle();
}

TEST(SchedulerBeams, ArePreemptedAndResumedTogether) {
  // An earlier request takes the blocks.
  Harness harness(beam_config(), make_layout(37, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(60, 0), 80)).ok());
  Request request = beam_request(1, 22, 30, 2, 4);
  make_long(request, 25);
  ASSERT_TRUE(harness.add(request).ok());
  bool waited = false;
  while (harness.scheduler.has_work()) {
    harness.step();
    harness.scheduler.check_integrity();
    const SchedulerStats stats = harness.scheduler.stats();
    waited = waited || (stats.num_waiting > 1 && stats.num_running == 1);
    if (HasFailure()) return;
  }
  EXPECT_TRUE(waited) << "several beams wait together";
  EXPECT_GT(harness.scheduler.stats().num_preemptions, 0);
  harness.expect_as_alone(0);
  harness.expect_as_alone(1);
  harness.expect_idle();
}

TEST(SchedulerBeams, ShareTheirPromptAgainAfterAPreemption) {
  SchedulerConfig config = beam_config();
  config.enable_prefix_caching = false;
  config.policy = SchedulingPolicy::kPriority;
  config.max_num_batched_tokens = 256;
  Harness harness(config, make_layout(200, 4));
  Request request = beam_request(0, 100, 30, 2, 4);
  request.priority = 1;
  make_long(request, 20);
  ASSERT_TRUE(harness.add(request).ok());
  for (int i = 0; i < 4; ++i) harness.step();
  Request urgent = make_request(1, make_prompt(8, 1), 1, 8);
  ASSERT_TRUE(harness.add(urgent).ok());
  harness.step();
  EXPECT_EQ(harness.scheduler.stats().num_preemptions, 1);
  harness.step();
  EXPECT_EQ(harness.last_plan.num_tokens, 100) << "one of them computes the prompt";
  harness.drain();
  harness.expect_as_alone(0);
  harness.expect_as_alone(1);
  harness.expect_idle();
}

TEST(SchedulerBeams, MustFitTogether) {
  // 10 tokens share 2 blocks; 4 beams of 29 computed tokens hold 6 more each.
  const Request request = beam_request(0, 10, 20, 2, 4);
  Harness small(beam_config(), make_layout(25, 4));
  const Status status = small.add(request);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.failure().message, HasSubstr("4 beams that run together needs 26 blocks"));
  EXPECT_EQ(status.failure().param, "max_tokens");
  Harness fitting(beam_config(), make_layout(26, 4));
  Request longest = request;
  make_long(longest, 20);
  ASSERT_TRUE(fitting.add(longest).ok());
  fitting.drain();
  fitting.expect_as_alone(0);

  EXPECT_EQ(fitting.add(beam_request(1, 10, 2, 2, 9)).failure().param, "best_of");
  EXPECT_EQ(fitting.add(beam_request(1, 10, 2, 9, 0)).failure().param, "n");
}

TEST(SchedulerBeams, EndTogetherWhenOneFailsOrTheRequestIsAborted) {
  for (const bool aborted : {false, true}) {
    Harness harness(beam_config(), make_layout(128, 4));
    Request request = beam_request(0, 10, 30, 2, 4);
    make_long(request, 20);
    ASSERT_TRUE(harness.add(request).ok());
    for (int i = 0; i < 5; ++i) harness.step();
    harness.plan();
    if (aborted) {
      harness.abort(0);
    } else {
      harness.executor.fail_next = {harness.last_plan.scheduled.back().seq};
    }
    harness.compute();
    harness.scheduler.check_integrity();
    harness.drain();
    EXPECT_EQ(harness.requests[0].finished, !aborted);
    EXPECT_EQ(harness.requests[0].samples[0].error, aborted ? "" : "the logits are not numbers");
    harness.expect_idle();
  }
}

TEST(SchedulerBeams, EndIfTheExecutorReportsNoResultOrDropsAll) {
  const auto run = [](auto answer) {
    Harness harness(beam_config(), make_layout(128, 4));
    EXPECT_TRUE(harness.add(beam_request(0, 4, 5, 1, 1)).ok());
    std::string error;
    for (int i = 0; i < 20 && error.empty(); ++i) {
      const StepPlan& plan = harness.scheduler.schedule();
      StepResult result;
      result.step = plan.step;
      answer(plan.scheduled.front().seq, result);
      for (const SequenceUpdate& update : harness.scheduler.commit(result).updates) error = update.error;
      harness.scheduler.check_integrity();
    }
    return error;
  };
  EXPECT_THAT(run([](SeqId seq, StepResult& result) {
                result.sampled = {{seq, 7, -1.0F, {}}};
              }),
              HasSubstr("did not end"));
  EXPECT_THAT(run([](SeqId, StepResult&) {}), HasSubstr("sampled no token"));
  EXPECT_THAT(run([](SeqId seq, StepResult& result) { result.dropped = {seq}; }), HasSubstr("dropped all"));
}

}  // namespace
}  // namespace quire::test
