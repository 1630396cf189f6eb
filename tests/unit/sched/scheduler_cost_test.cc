// A step of sequences that only decode allocates no heap memory.
#include <gtest/gtest.h>

#include "support/allocations.h"
#include "unit/sched/fake_executor.h"

namespace quire::test {
namespace {

class SchedulerCost : public ::testing::TestWithParam<SchedulingPolicy> {};

TEST_P(SchedulerCost, SteadyDecodeAllocatesNothing) {
  if (!kCountsAllocations) GTEST_SKIP() << "sanitizers have their own `new`";
  SchedulerConfig config;
  config.policy = GetParam();
  config.max_num_seqs = 64;
  config.max_num_batched_tokens = 4096;
  config.max_model_len = 2000;
  config.max_num_partial_prefills = 2;
  config.tpot_slo = 0.05;
  KvLayout layout = make_layout(4096, 16);
  layout.num_host_blocks = 64;
  Scheduler scheduler(config, layout);
  for (RequestId id = 0; id < 32; ++id) {
    Request request =
        make_request(id, make_prompt(60 + static_cast<int32_t>(id), static_cast<uint64_t>(id)), 900, 2);
    request.client_id = id % 3;
    ASSERT_TRUE(scheduler.add_request(std::move(request)).ok());
  }
  FakeExecutor executor(layout);
  StepResult result;
  double now = 0.0;
  // The forks and a few steps, after which the plan's vectors no longer grow.
  for (int i = 0; i < 60; ++i) {
    result = executor.execute(scheduler.schedule(now += 0.01));
    scheduler.commit(result);
  }
  ASSERT_EQ(scheduler.stats().num_running, 64);
  int64_t allocated = 0;
  for (int i = 0; i < 500; ++i) {
    int64_t before = allocation_count();
    const StepPlan& plan = scheduler.schedule(now += 0.01);
    allocated += allocation_count() - before;
    result.step = plan.step;
    result.sampled.clear();
    for (const ScheduledSequence& scheduled : plan.scheduled)
      result.sampled.push_back({scheduled.seq, 7, -1.0F, {}});
    before = allocation_count();
    scheduler.commit(result);
    allocated += allocation_count() - before;
  }
  EXPECT_EQ(scheduler.stats().num_running, 64);
  EXPECT_EQ(allocated, 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, SchedulerCost,
                         ::testing::Values(SchedulingPolicy::kFcfs, SchedulingPolicy::kPriority,
                                           SchedulingPolicy::kMlfq, SchedulingPolicy::kFair));

}  // namespace
}  // namespace quire::test
