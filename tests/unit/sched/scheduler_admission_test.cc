// Requests that add_request() rejects, and the messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "unit/sched/fake_executor.h"

namespace quire::test {
namespace {

using ::testing::HasSubstr;

SchedulerConfig door_config() {
  SchedulerConfig config;
  config.max_num_seqs = 4;
  config.max_num_batched_tokens = 64;
  config.max_model_len = 100;
  config.max_num_queued_requests = 3;
  return config;
}

TEST(SchedulerAdmission, RejectsAnEmptyPrompt) {
  Harness harness(door_config(), make_layout(64, 4));
  const Status status = harness.add(make_request(0, {}, 4));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.failure().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(status.failure().param, "prompt");
}

TEST(SchedulerAdmission, RejectsAPromptLongerThanMaxModelLen) {
  Harness harness(door_config(), make_layout(64, 4));
  const Status status = harness.add(make_request(0, make_prompt(5003, 0), 4));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.failure().message, "The prompt has 5003 tokens; the maximum is 100 (--max-model-len).");
}

TEST(SchedulerAdmission, RejectsAPromptThatLeavesNoRoomForOneToken) {
  Harness harness(door_config(), make_layout(64, 4));
  const Status status = harness.add(make_request(0, make_prompt(100, 0), 4));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.failure().message, HasSubstr("100 tokens"));
  EXPECT_TRUE(harness.add(make_request(1, make_prompt(99, 0), 4)).ok());
  EXPECT_TRUE(harness.add(make_request(2, make_prompt(100, 0), 0)).ok()) << "scoring alone needs no room";
}

TEST(SchedulerAdmission, RejectsRequestsThatNeedMoreBlocksThanThePoolHas) {
  Harness harness(door_config(), make_layout(8, 4));
  const Status long_prompt = harness.add(make_request(0, make_prompt(33, 0), 1));
  ASSERT_FALSE(long_prompt.ok());
  EXPECT_EQ(long_prompt.failure().param, "prompt");
  const Status long_output = harness.add(make_request(0, make_prompt(20, 0), 14));
  ASSERT_FALSE(long_output.ok());
  EXPECT_EQ(long_output.failure().param, "max_tokens");
  EXPECT_EQ(long_output.failure().message,
            "The prompt of 20 tokens with max_tokens 14 needs 9 blocks of 4 tokens; the KV cache has 8 "
            "(--kv-cache-memory).");
  // The last token drawn is never computed, so 33 tokens need 32 slots.
  EXPECT_TRUE(harness.add(make_request(0, make_prompt(20, 0), 13)).ok());
}

TEST(SchedulerAdmission, LimitsTheLengthToMaxModelLen) {
  Harness harness(door_config(), make_layout(25, 4));
  EXPECT_TRUE(harness.add(make_request(0, make_prompt(20, 0), 2'000'000'000)).ok());
  harness.drain();
  harness.expect_as_alone(0);
  EXPECT_EQ(harness.requests[0].samples[0].token_ids.size(), 80U);
}

TEST(SchedulerAdmission, RejectsMoreSamplesThanMaxNumSeqs) {
  Harness harness(door_config(), make_layout(64, 4));
  const Status status = harness.add(make_request(0, make_prompt(4, 0), 4, 5));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.failure().param, "n");
  EXPECT_EQ(status.failure().message, "n is 5; at most 4 samples run at once (--max-num-seqs).");
  EXPECT_FALSE(harness.add(make_request(0, make_prompt(4, 0), 4, 0)).ok());
  EXPECT_FALSE(harness.add(make_request(0, make_prompt(4, 0), -1)).ok());
}

TEST(SchedulerAdmission, RejectsRequestsWhileTheQueueIsFull) {
  Harness harness(door_config(), make_layout(64, 4));
  for (RequestId id = 0; id < 3; ++id) EXPECT_TRUE(harness.add(make_request(id, make_prompt(4, 0), 4)).ok());
  const Status status = harness.add(make_request(3, make_prompt(4, 0), 4));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.failure().kind, ErrorKind::kOverloaded);
  EXPECT_THAT(status.failure().message, HasSubstr("3 requests are waiting"));
  harness.step();
  EXPECT_TRUE(harness.add(make_request(3, make_prompt(4, 0), 4)).ok());
  harness.abort(3);
  for (RequestId id = 4; id < 7; ++id) EXPECT_TRUE(harness.add(make_request(id, make_prompt(4, 0), 4)).ok());
}

TEST(SchedulerAdmission, RejectsAnIdInUseAndAPriorityWithoutThePolicy) {
  Harness harness(door_config(), make_layout(64, 4));
  EXPECT_TRUE(harness.add(make_request(0, make_prompt(4, 0), 4)).ok());
  EXPECT_EQ(harness.scheduler.add_request(make_request(0, make_prompt(4, 0), 4)).failure().kind,
            ErrorKind::kInternal);
  Request urgent = make_request(1, make_prompt(4, 0), 4);
  urgent.priority = -1;
  EXPECT_EQ(harness.add(urgent).failure().param, "priority");
}

TEST(SchedulerAdmission, AcceptsAnyPriorityWithThePriorityPolicy) {
  SchedulerConfig config = door_config();
  config.policy = SchedulingPolicy::kPriority;
  Harness harness(config, make_layout(64, 4));
  Request request = make_request(0, make_prompt(4, 0), 4);
  request.priority = std::numeric_limits<int32_t>::min();
  EXPECT_TRUE(harness.add(request).ok());
  request = make_request(1, make_prompt(4, 0), 4);
  request.priority = std::numeric_limits<int32_t>::max();
  EXPECT_TRUE(harness.add(request).ok());
  harness.drain();
  harness.expect_as_alone(0);
  harness.expect_as_alone(1);
}

TEST(SchedulerAdmission, ThrowsForInvalidLimits) {
  for (int32_t SchedulerConfig::*field :
       {&SchedulerConfig::max_num_seqs, &SchedulerConfig::max_num_batched_tokens,
        &SchedulerConfig::max_model_len, &SchedulerConfig::max_num_queued_requests}) {
    SchedulerConfig config = door_config();
    config.*field = 0;
    EXPECT_THROW(Scheduler(config, make_layout(8, 4)), Error);
  }
  for (double SchedulerConfig::*field : {&SchedulerConfig::ttft_slo, &SchedulerConfig::tpot_slo}) {
    SchedulerConfig config = door_config();
    config.*field = -0.1;
    EXPECT_THROW(Scheduler(config, make_layout(8, 4)), Error);
  }
  SchedulerConfig config = door_config();
  config.max_num_partial_prefills = -1;
  EXPECT_THROW(Scheduler(config, make_layout(8, 4)), Error);
  EXPECT_THROW(Scheduler(door_config(), make_layout(0, 4)), Error);
  EXPECT_THROW(Scheduler(door_config(), make_layout(8, 0)), Error);
}

TEST(SchedulerAdmission, ThrowsIfAStepIsNotCommitted) {
  Harness harness(door_config(), make_layout(64, 4));
  EXPECT_TRUE(harness.add(make_request(0, make_prompt(4, 0), 4)).ok());
  harness.plan();
  EXPECT_THROW(harness.scheduler.schedule(), Error);
  StepResult other;
  other.step = harness.last_plan.step + 1;
  EXPECT_THROW(harness.scheduler.commit(other), Error);
}

}  // namespace
}  // namespace quire::test
