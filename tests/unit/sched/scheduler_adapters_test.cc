// Steps with at most max_loras adapters: the turns of adapters, how long each waits, and what requests that
// wait for their turn hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "sched/adapter_turns.h"
#include "support/sanitizers.h"
#include "unit/sched/fake_executor.h"

namespace quire::test {
namespace {

constexpr int64_t kQuantum = AdapterTurns::kQuantum;

SchedulerConfig adapter_config(int32_t max_loras) {
  SchedulerConfig config;
  config.max_loras = max_loras;
  config.max_num_seqs = 128;
  config.max_num_batched_tokens = 4096;
  config.max_model_len = 4000;
  return config;
}

Request with_adapter(RequestId id, int32_t adapter, int32_t size, int32_t max_tokens, int32_t n = 1) {
  Request request = make_request(id, make_prompt(size, static_cast<uint64_t>(id) + 1000), max_tokens, n);
  if (adapter > 0) request.adapter = {.id = adapter, .digest = std::to_string(adapter)};
  return request;
}

// The adapters of the last plan.
std::set<int32_t> planned_adapters(const Harness& harness) {
  std::set<int32_t> adapters;
  for (const ScheduledSequence& scheduled : harness.last_plan.scheduled)
    adapters.insert(harness.requests.at(harness.scheduler.request_of(scheduled.seq)).request.adapter.id);
  return adapters;
}

int64_t generated(Harness& harness, RequestId id) {
  return static_cast<int64_t>(harness.requests[id].samples[0].token_ids.size());
}

// BusyClients that each send a request for an adapter when the last one has ended.
class BusyClients {
 public:
  BusyClients(Harness& harness, int count, int32_t adapter, uint32_t seed)
      : harness_(harness), adapter_(adapter), current_(static_cast<size_t>(count), -1), random_(seed) {}
  void send() {
    for (RequestId& id : current_) {
      if (id >= 0 && !harness_.requests[id].finished) continue;
      id = next_id_++;
      const auto size = static_cast<int32_t>(8 + random_() % 40);
      const auto max_tokens = static_cast<int32_t>(1 + random_() % 60);
      ASSERT_TRUE(harness_.add(with_adapter(id, adapter_, size, max_tokens)).ok());
    }
  }

 private:
  Harness& harness_;
  int32_t adapter_;
  std::vector<RequestId> current_;
  RequestId next_id_ = 100000;
  std::mt19937 random_;
};

// Steps until the request has its first token.
int64_t steps_to_first_token(Harness& harness, RequestId id, const std::function<void()>& before_step) {
  int64_t num_steps = 0;
  while (generated(harness, id) == 0 && num_steps < 1000) {
    before_step();
    harness.step();
    ++num_steps;
  }
  return num_steps;
}

TEST(AdapterTurns, OneRequestAmongManyOfAnotherAdapterWaitsForTwoQuantaAtMost) {
  // The second budget is used up by the other clients in each of their steps.
  for (const int32_t budget : {4096, 64}) {
    SchedulerConfig config = adapter_config(1);
    config.max_num_batched_tokens = budget;
    const Request request = with_adapter(1, 2, 60, 5);
    Harness idle(config, make_layout(4096, 16));
    ASSERT_TRUE(idle.add(request).ok());
    const int64_t alone = steps_to_first_token(idle, 1, [] {});
    for (int64_t warm_up = 150; warm_up < 150 + 2 * kQuantum; ++warm_up) {
      Harness harness(config, make_layout(4096, 16));
      BusyClients clients(harness, 64, 1, static_cast<uint32_t>(warm_up));
      for (int64_t i = 0; i < warm_up; ++i) clients.send(), harness.step();
      ASSERT_TRUE(harness.add(request).ok());
      const int64_t steps = steps_to_first_token(harness, 1, [&] { clients.send(); });
      EXPECT_LE(steps, alone + 2 * kQuantum) << "budget " << budget << ", after " << warm_up << " steps";
    }
  }
}

TEST(AdapterTurns, AreOfSixteenSteps) {
  Harness harness(adapter_config(1), make_layout(4096, 16));
  for (int32_t adapter = 1; adapter <= 3; ++adapter)
    ASSERT_TRUE(harness.add(with_adapter(adapter, adapter, 20, 200)).ok());
  std::vector<int32_t> order;
  for (int i = 0; i < 6 * kQuantum; ++i) {
    harness.step();
    ASSERT_EQ(planned_adapters(harness).size(), 1U);
    order.push_back(*planned_adapters(harness).begin());
  }
  for (size_t i = 0; i < order.size(); ++i)
    EXPECT_EQ(order[i], 1 + static_cast<int32_t>(i / kQuantum) % 3) << "step " << i;
  harness.drain();
  for (RequestId id = 1; id <= 3; ++id) harness.expect_as_alone(id);
  harness.expect_idle();
}

TEST(AdapterTurns, TheBaseModelTakesNoPlace) {
  Harness harness(adapter_config(1), make_layout(4096, 16));
  for (int32_t id = 0; id < 3; ++id) ASSERT_TRUE(harness.add(with_adapter(id, id, 20, 100)).ok());
  for (int64_t i = 0; i < 80; ++i) {
    harness.step();
    EXPECT_EQ(generated(harness, 0), i + 1);
  }
  harness.drain();
}

TEST(AdapterTurns, AnEndedTurnIsTakenAtOnce) {
  Harness harness(adapter_config(1), make_layout(4096, 16));
  ASSERT_TRUE(harness.add(with_adapter(1, 1, 20, 3)).ok());
  ASSERT_TRUE(harness.add(with_adapter(2, 2, 20, 50)).ok());
  for (int i = 0; i < 4; ++i) harness.step();
  EXPECT_TRUE(harness.requests[1].finished);
  EXPECT_EQ(generated(harness, 2), 1);
}

// A new adapter is the last to wait, so a stream of them does not keep others away.
TEST(AdapterTurns, NewAdaptersDoNotPassOthers) {
  Harness harness(adapter_config(2), make_layout(8192, 16));
  ASSERT_TRUE(harness.add(with_adapter(0, 1, 20, 40)).ok());
  ASSERT_TRUE(harness.add(with_adapter(1, 2, 20, 40)).ok());
  // Twice as many as two turns at a time can serve.
  for (int32_t id = 2; id < 500; ++id) {
    ASSERT_TRUE(harness.add(with_adapter(id, id + 1, 20, 4)).ok());
    harness.step();
  }
  EXPECT_TRUE(harness.requests[0].finished && harness.requests[1].finished);
  harness.drain();
  harness.expect_idle();
}

class AdapterBound : public ::testing::TestWithParam<SchedulingPolicy> {};

TEST_P(AdapterBound, EveryAdapterWaitsForItsShareOfQuantaAtMost) {
  for (uint32_t seed = 0; seed < static_cast<uint32_t>(repetitions(40, 6)); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int limit) {
      return static_cast<int32_t>(random() % static_cast<uint32_t>(limit));
    };
    const int32_t max_loras = 1 + below(4);
    const int32_t num_adapters = 1 + below(12);
    SchedulerConfig config = adapter_config(max_loras);
    config.policy = GetParam();
    Harness harness(config, make_layout(8192, 16));
    std::map<int32_t, int64_t> waited;
    const int64_t bound = kQuantum * ((num_adapters + max_loras - 1) / max_loras);
    RequestId next_id = 0;
    const int rate = 1 + below(8);
    for (int i = 0; i < 500; ++i) {
      for (int added = 0; added < 2; ++added) {
        if (below(rate) > 0) continue;
        Request request =
            with_adapter(next_id++, below(num_adapters + 1), 1 + below(50), 1 + below(60), 1 + below(2));
        request.priority = below(3);
        request.client_id = below(3);
        // max_num_seqs limits requests, not adapters.
        if (harness.scheduler.stats().num_running + harness.scheduler.stats().num_waiting > 100) continue;
        ASSERT_TRUE(harness.add(std::move(request)).ok());
      }
      std::set<int32_t> wanted;
      for (const auto& [id, request] : harness.requests) {
        if (!request.finished && request.request.adapter.id > 0) wanted.insert(request.request.adapter.id);
      }
      harness.plan();
      const std::set<int32_t> planned = planned_adapters(harness);
      for (int32_t adapter = 1; adapter <= num_adapters; ++adapter) {
        const bool waits = wanted.contains(adapter) && !planned.contains(adapter);
        waited[adapter] = waits ? waited[adapter] + 1 : 0;
        ASSERT_LE(waited[adapter], bound) << "adapter " << adapter << " of " << num_adapters;
      }
      const size_t num_planned = planned.size() - planned.count(0);
      ASSERT_EQ(num_planned, std::min<size_t>(wanted.size(), static_cast<size_t>(max_loras)));
      harness.compute();
      harness.scheduler.check_integrity();
      if (HasFailure()) return;
    }
    harness.drain();
    harness.expect_idle();
    for (const auto& [id, request] : harness.requests) {
      EXPECT_TRUE(request.finished) << "request " << id;
      harness.expect_as_alone(id);
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, AdapterBound,
                         ::testing::Values(SchedulingPolicy::kFcfs, SchedulingPolicy::kPriority,
                                           SchedulingPolicy::kMlfq, SchedulingPolicy::kFair));

// The request in its turn is the last one, so it preempts itself; the other continues in the same step.
TEST(AdapterTurns, NoStepIsEmptyWhenTheOnlyRequestOfATurnIsPreempted) {
  Harness harness(adapter_config(1), make_layout(16, 4));
  ASSERT_TRUE(harness.add(with_adapter(1, 1, 8, 50)).ok());
  ASSERT_TRUE(harness.add(with_adapter(2, 2, 8, 50)).ok());
  while (!harness.requests[1].finished || !harness.requests[2].finished) {
    harness.step();
    ASSERT_EQ(harness.last_plan.scheduled.size(), 1U);
  }
  harness.drain();
  EXPECT_GT(harness.scheduler.stats().num_preemptions, 0);
  for (RequestId id = 1; id <= 2; ++id) harness.expect_as_alone(id);
  harness.expect_idle();
}

// The blocks of a prompt count from its admission on, although its turn comes later.
TEST(AdapterTurns, RequestsAreNotAdmittedForTheSameBlocks) {
  Harness harness(adapter_config(1), make_layout(64, 4));
  for (int32_t id = 1; id <= 20; ++id) ASSERT_TRUE(harness.add(with_adapter(id, id, 40, 4)).ok());
  harness.step();
  EXPECT_EQ(harness.scheduler.stats().num_running, 6) << "10 blocks each, of 64";
  harness.drain();
  EXPECT_EQ(harness.scheduler.stats().num_preemptions, 0);
  for (RequestId id = 1; id <= 20; ++id) harness.expect_as_alone(id);
}

TEST(AdapterTurns, RequestsThatWaitForTheirTurnUseWhatIsCachedByThen) {
  SchedulerConfig config = adapter_config(1);
  config.max_num_batched_tokens = 64;
  Harness harness(config, make_layout(256, 4));
  ASSERT_TRUE(harness.add(with_adapter(0, 1, 20, 60)).ok());
  harness.step();
  for (RequestId id = 1; id <= 4; ++id) {
    Request request = with_adapter(id, 2, 0, 4);
    request.prompt_token_ids = make_prompt(60, 7);
    ASSERT_TRUE(harness.add(std::move(request)).ok());
  }
  harness.drain();
  // The first prompt and four tokens of the second are one step; the others find the prompt in the cache.
  EXPECT_EQ(harness.scheduler.stats().prefix_hit_tokens, 2 * 56);
  for (RequestId id = 0; id <= 4; ++id) harness.expect_as_alone(id);
}

TEST(AdapterTurns, ARequestHasStartedWhenItIsComputed) {
  Harness harness(adapter_config(1), make_layout(256, 4));
  ASSERT_TRUE(harness.add(with_adapter(1, 1, 20, 60)).ok());
  ASSERT_TRUE(harness.add(with_adapter(2, 2, 20, 60)).ok());
  for (int64_t step = 0; step <= kQuantum; ++step) {
    const StepPlan plan = harness.scheduler.schedule();
    const std::vector<RequestId> started = harness.scheduler.commit(harness.executor.execute(plan)).started;
    const RequestId expected = step == 0 ? 1 : step == kQuantum ? 2 : 0;
    EXPECT_EQ(started, expected > 0 ? std::vector{expected} : std::vector<RequestId>()) << "step " << step;
  }
}

TEST(AdapterTurns, WholePromptsAreComputedInOneStep) {
  SchedulerConfig config = adapter_config(1);
  config.whole_prompts = true;
  config.enable_prefix_caching = false;
  config.max_num_batched_tokens = 64;
  Harness harness(config, make_layout(256, 4));
  for (int32_t id = 0; id < 40; ++id) ASSERT_TRUE(harness.add(with_adapter(id, 1 + id % 3, 20 + id, 0)).ok());
  while (harness.scheduler.has_work()) {
    harness.plan();
    ASSERT_FALSE(harness.last_plan.empty());
    for (const ScheduledSequence& scheduled : harness.last_plan.scheduled)
      EXPECT_EQ(scheduled.num_new_tokens, 20 + harness.scheduler.request_of(scheduled.seq));
    EXPECT_LE(planned_adapters(harness).size(), 1U);
    harness.compute();
  }
  harness.expect_idle();
}

// Sequences that wait for their turn get no token in the step, so nothing is kept for them.
TEST(AdapterTurns, APromptGetsTheBudgetOfSequencesThatWait) {
  SchedulerConfig config = adapter_config(1);
  config.tpot_slo = 10.0;
  config.max_num_batched_tokens = 64;
  Harness harness(config, make_layout(1024, 4));
  harness.seconds_step = 0.001;
  for (int32_t id = 0; id < 30; ++id) ASSERT_TRUE(harness.add(with_adapter(id, 1, 2, 100)).ok());
  harness.step();
  ASSERT_TRUE(harness.add(with_adapter(30, 2, 200, 5)).ok());
  while (planned_adapters(harness) != std::set{2}) harness.step();
  EXPECT_EQ(harness.last_plan.num_tokens, 64);
}

}  // namespace
}  // namespace quire::test
