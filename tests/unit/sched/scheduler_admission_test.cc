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
  EXPECT_EQ(status.failure().message,
            "The prompt has 5003 tokens; the maximum is 99, which leaves room for one generated token "
            "(--max-model-len 100).");
}

TEST(SchedulerAdmission, RejectsAPromptThatLeavesNoRoomForOneToken) {
  Harness harness(door_config(), make_layout(64, 4));
  const Status status = harness.add(make_request(0, make_prompt(100, 0), 4));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.failure().message, HasSubstr("The prompt has 100 tokens; the maximum is 99, "));
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
}

TEST(SchedulerAdmission, RejectsAnIdInUse) {
  Harness harness(door_config(), make_layout(64, 4));
  EXPECT_TRUE(harness.add(make_request(0, make_prompt(4, 0), 4)).ok());
  EXPECT_EQ(harness.scheduler.add_request(make_request(0, make_prompt(4, 0), 4)).failure().kind,
            ErrorKind::kInternal);
}

TEST(SchedulerAdmission, IgnoresAPriorityWithoutThePolicy) {
  for (const auto policy : {SchedulingPolicy::kFcfs, SchedulingPolicy::kFair, SchedulingPolicy::kMlfq}) {
    SchedulerConfig config = door_config();
    config.policy = policy;
    config.max_num_seqs = 1;
    Harness harness(config, make_layout(64, 4));
    Request urgent = make_request(1, make_prompt(4, 0), 4);
    urgent.priority = -1;
    EXPECT_TRUE(harness.add(make_request(0, make_prompt(4, 0), 4)).ok());
    EXPECT_TRUE(harness.add(urgent).ok());
    harness.step();
    EXPECT_EQ(harness.requests[0].samples[0].token_ids.size(), 1U) << "the first one runs first";
    harness.drain();
    harness.expect_as_alone(1);
  }
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

TEST(SchedulerAdmission, ThrowsForAnEmptyLayout) {
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
