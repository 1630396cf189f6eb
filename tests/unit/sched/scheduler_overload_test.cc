// KV memory for a tenth of the load: every request finishes with the output that it gets alone, for every
// policy and preemption mode.
#include <gtest/gtest.h>

#include <tuple>

#include "unit/sched/fake_executor.h"

namespace quire::test {
namespace {

using Case = std::tuple<SchedulingPolicy, PreemptionMode>;

class Overload : public ::testing::TestWithParam<Case> {};

Request overload_request(RequestId id) {
  const auto number = static_cast<int32_t>(id);
  Request request = make_request(id, make_prompt(20 + number % 17, static_cast<uint64_t>(id)),
                                 20 + number % 23, 1 + number % 3);
  if (number % 5 == 4) {
    request.sampling.edit().use_beam_search = true;
    request.sampling.edit().beam_width = request.sampling->n + 1;
  }
  request.client_id = number % 3;
  return request;
}

TEST_P(Overload, KeepsOutputsWithATenthOfTheMemory) {
  const auto [policy, mode] = GetParam();
  constexpr int32_t kNumRequests = 60;
  constexpr int32_t kBlockSize = 4;
  int32_t num_blocks_asked = 0;
  std::vector<Request> requests;
  for (RequestId id = 0; id < kNumRequests; ++id) {
    Request& request = requests.emplace_back(overload_request(id));
    if (policy == SchedulingPolicy::kPriority) request.priority = static_cast<int32_t>(id % 7) - 3;
    const auto num_tokens =
        static_cast<int32_t>(request.prompt_token_ids.size()) + request.sampling->max_tokens;
    num_blocks_asked += request.sampling->num_sequences() * ((num_tokens + kBlockSize - 1) / kBlockSize);
  }
  SchedulerConfig config;
  config.policy = policy;
  config.preemption_mode = mode;
  config.max_num_seqs = 256;
  config.max_num_batched_tokens = 512;
  config.max_model_len = 200;
  config.guard_delay = 64;
  KvLayout layout = make_layout(num_blocks_asked / 10, kBlockSize);
  layout.num_host_blocks = mode == PreemptionMode::kRecompute ? 0 : num_blocks_asked / 5;
  layout.bytes_per_block = 1'000'000;
  Harness harness(config, layout);
  harness.seconds_step = 0.005;
  harness.seconds_token = 0.0005;
  // Half of them at once, the others during the run.
  for (RequestId id = 0; id < kNumRequests / 2; ++id)
    ASSERT_TRUE(harness.add(requests[static_cast<size_t>(id)]).ok());
  for (RequestId id = kNumRequests / 2; id < kNumRequests; ++id) {
    ASSERT_TRUE(harness.add(requests[static_cast<size_t>(id)]).ok());
    harness.now += harness.seconds_step + harness.seconds_token * harness.last_plan.num_tokens;
    harness.step();
    harness.scheduler.check_integrity();
  }
  harness.drain(20000);
  for (RequestId id = 0; id < kNumRequests; ++id) {
    EXPECT_TRUE(harness.requests[id].finished);
    harness.expect_as_alone(id);
  }
  const SchedulerStats stats = harness.scheduler.stats();
  EXPECT_GT(stats.num_preemptions, 0);
  EXPECT_EQ(stats.num_swap_outs > 0, mode != PreemptionMode::kRecompute);
  EXPECT_EQ(stats.num_swap_outs, stats.num_swap_ins);
  harness.expect_idle();
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  const char* const policies[] = {"fcfs", "priority", "mlfq", "fair"};
  const char* const modes[] = {"auto", "recompute", "swap"};
  return std::string(policies[static_cast<size_t>(std::get<0>(info.param))]) + "_" +
         modes[static_cast<size_t>(std::get<1>(info.param))];
}

INSTANTIATE_TEST_SUITE_P(
    PoliciesAndModes, Overload,
    ::testing::Combine(::testing::Values(SchedulingPolicy::kFcfs, SchedulingPolicy::kPriority,
                                         SchedulingPolicy::kMlfq, SchedulingPolicy::kFair),
                       ::testing::Values(PreemptionMode::kRecompute, PreemptionMode::kSwap,
                                         PreemptionMode::kAuto)),
    name_of);

}  // namespace
}  // namespace quire::test
