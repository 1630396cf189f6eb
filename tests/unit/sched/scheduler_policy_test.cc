// The order of requests under each policy, the number of partial prefills, and latency targets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <random>

#include "support/sanitizers.h"
#include "unit/sched/fake_executor.h"

namespace quire::test {
namespace {

using ::testing::ElementsAre;

SchedulerConfig policy_config(SchedulingPolicy policy) {
  SchedulerConfig config;
  config.policy = policy;
  config.max_num_seqs = 2;
  config.max_num_batched_tokens = 64;
  config.max_model_len = 4000;
  return config;
}

// Runs to the end; the requests in the order in which they started.
std::vector<RequestId> drain_started(Harness& harness) {
  std::vector<RequestId> started;
  while (harness.scheduler.has_work()) {
    harness.now += harness.seconds_step;
    const StepPlan plan = harness.scheduler.schedule(harness.now);
    const CommitResult& result = harness.scheduler.commit(harness.executor.execute(plan));
    started.insert(started.end(), result.started.begin(), result.started.end());
  }
  return started;
}

Request prioritized(RequestId id, int32_t priority, int32_t size, int32_t max_tokens) {
  Request request = make_request(id, make_prompt(size, static_cast<uint64_t>(id)), max_tokens);
  request.priority = priority;
  return request;
}

TEST(PriorityPolicy, OrdersByPriorityThenArrival) {
  SchedulerConfig config = policy_config(SchedulingPolicy::kPriority);
  config.max_num_seqs = 1;
  Harness harness(config, make_layout(64, 4));
  for (const auto& [id, priority] : {std::pair{0, 3}, {1, -7}, {2, 3}, {3, -7}, {4, 0}})
    ASSERT_TRUE(harness.add(prioritized(id, priority, 8, 3)).ok());
  EXPECT_THAT(drain_started(harness), ElementsAre(1, 3, 4, 0, 2));
}

TEST(FcfsPolicy, ARequestThatIsQueuedLateKeepsItsReservedPlace) {
  SchedulerConfig config = policy_config(SchedulingPolicy::kFcfs);
  config.max_num_seqs = 1;
  Harness harness(config, make_layout(64, 4));
  ASSERT_TRUE(harness.add(prioritized(0, 0, 8, 3)).ok());
  harness.step();
  const int64_t place = harness.scheduler.reserve_place();
  ASSERT_TRUE(harness.add(prioritized(2, 0, 8, 3)).ok());
  ASSERT_TRUE(harness.scheduler.add_request(prioritized(1, 0, 8, 3), place).ok());
  ASSERT_TRUE(harness.add(prioritized(3, 0, 8, 3)).ok());
  EXPECT_THAT(drain_started(harness), ElementsAre(1, 2, 3));
}

TEST(PriorityPolicy, PreemptsALessImportantRequestForASlot) {
  Harness harness(policy_config(SchedulingPolicy::kPriority), make_layout(64, 4));
  ASSERT_TRUE(harness.add(prioritized(0, 1, 8, 30)).ok());
  ASSERT_TRUE(harness.add(prioritized(1, 2, 8, 30)).ok());
  harness.step();
  ASSERT_TRUE(harness.add(prioritized(2, 0, 8, 5)).ok());
  harness.plan();
  // The urgent prompt runs first, then the request that was not preempted.
  ASSERT_EQ(harness.last_plan.scheduled.size(), 2U);
  EXPECT_EQ(harness.last_plan.scheduled[0].num_new_tokens, 8);
  EXPECT_EQ(harness.last_plan.scheduled[1].num_new_tokens, 1);
  EXPECT_EQ(harness.scheduler.stats().num_preemptions, 1);
  harness.compute();
  harness.drain();
  for (RequestId id = 0; id < 3; ++id) harness.expect_as_alone(id);
  harness.expect_idle();
}

TEST(PriorityPolicy, PreemptsLessImportantRequestsForBlocks) {
  SchedulerConfig config = policy_config(SchedulingPolicy::kPriority);
  config.max_num_seqs = 8;
  Harness harness(config, make_layout(20, 4));
  for (RequestId id = 0; id < 4; ++id) ASSERT_TRUE(harness.add(prioritized(id, 5, 16, 20)).ok());
  harness.step();
  ASSERT_TRUE(harness.add(prioritized(4, -5, 40, 20)).ok());
  harness.plan();
  EXPECT_EQ(harness.last_plan.scheduled[0].num_new_tokens, 40);
  EXPECT_EQ(harness.scheduler.stats().num_preemptions, 2) << "no more than it needs";
  harness.compute();
  harness.drain();
  for (RequestId id = 0; id < 5; ++id) harness.expect_as_alone(id);
  harness.expect_idle();
}

TEST(PriorityPolicy, DoesNotPreemptEquallyOrMoreImportantRequests) {
  Harness harness(policy_config(SchedulingPolicy::kPriority), make_layout(64, 4));
  ASSERT_TRUE(harness.add(prioritized(0, 1, 8, 10)).ok());
  ASSERT_TRUE(harness.add(prioritized(1, 1, 8, 10)).ok());
  harness.step();
  ASSERT_TRUE(harness.add(prioritized(2, 1, 8, 5)).ok());
  harness.drain();
  EXPECT_EQ(harness.scheduler.stats().num_preemptions, 0);
}

TEST(PriorityPolicy, DoesNotPreemptIfItWouldNotSuffice) {
  SchedulerConfig config = policy_config(SchedulingPolicy::kPriority);
  config.max_num_seqs = 8;
  Harness harness(config, make_layout(20, 4));
  ASSERT_TRUE(harness.add(prioritized(0, -9, 48, 20)).ok());
  ASSERT_TRUE(harness.add(prioritized(1, 5, 8, 20)).ok());
  harness.step();
  ASSERT_TRUE(harness.add(prioritized(2, 0, 40, 2)).ok());
  harness.step();
  EXPECT_EQ(harness.scheduler.stats().num_preemptions, 0);
  EXPECT_EQ(harness.scheduler.stats().num_running, 2);
  harness.drain();
  for (RequestId id = 0; id < 3; ++id) harness.expect_as_alone(id);
}

TEST(MlfqPolicy, StartsAtTheLevelThatCoversThePrompt) {
  EXPECT_EQ(FeedbackLevels::first_level(1), 0);
  EXPECT_EQ(FeedbackLevels::first_level(256), 0);
  EXPECT_EQ(FeedbackLevels::first_level(257), 1);
  EXPECT_EQ(FeedbackLevels::first_level(1000), 2);
  EXPECT_EQ(FeedbackLevels::first_level(1 << 30), FeedbackLevels::kNumLevels - 1);
}

TEST(MlfqPolicy, PreemptsRequestsThatReceivedMuchWorkForShortOnes) {
  SchedulerConfig config = policy_config(SchedulingPolicy::kMlfq);
  config.max_num_seqs = 1;
  Harness harness(config, make_layout(512, 4));
  ASSERT_TRUE(harness.add(make_request(0, make_prompt(16, 0), 200)).ok());
  for (int i = 0; i < 10; ++i) harness.step();
  ASSERT_TRUE(harness.add(make_request(1, make_prompt(16, 1), 4)).ok());
  harness.step();
  EXPECT_FALSE(harness.requests[1].finished) << "the first has not used its quantum up";
  EXPECT_EQ(harness.scheduler.stats().num_preemptions, 0);
  for (int i = 0; i < 12; ++i) harness.step();
  EXPECT_TRUE(harness.requests[1].finished);
  EXPECT_EQ(harness.scheduler.stats().num_preemptions, 1);
  harness.drain();
  harness.expect_as_alone(0);
  harness.expect_as_alone(1);
  harness.expect_idle();
}

// Steps that a request takes while short ones arrive as fast as they are served, for ever, into few slots.
int64_t steps_under_short_requests(const SchedulerConfig& config, int32_t num_prompt, int32_t num_tokens) {
  Harness harness(config, make_layout(2000, 4));
  EXPECT_TRUE(harness.add(make_request(0, make_prompt(num_prompt, 0), num_tokens)).ok());
  RequestId next = 1;
  int64_t steps = 0;
  for (; steps < 20000 && !harness.requests[0].finished; ++steps) {
    while (harness.scheduler.stats().num_waiting < 2 * config.max_num_seqs) {
      EXPECT_TRUE(harness.add(make_request(next, make_prompt(8, static_cast<uint64_t>(next)), 4)).ok());
      ++next;
    }
    harness.step();
  }
  harness.drain();
  harness.expect_as_alone(0);
  return steps;
}

TEST(MlfqPolicy, EndsARequestWithinEightTimesItsStepsAndADelay) {
  struct Load {
    int32_t num_prompt;
    int32_t num_tokens;
    int32_t max_num_seqs;
  };
  for (const Load& each : {Load{700, 100, 1}, {700, 100, 4}, {40, 300, 1}, {3000, 2, 2}, {8, 700, 1}}) {
    SchedulerConfig config = policy_config(SchedulingPolicy::kMlfq);
    config.max_num_seqs = each.max_num_seqs;
    config.max_num_batched_tokens = 64;
    config.max_model_len = 4000;
    Harness alone(config, make_layout(2000, 4));
    ASSERT_TRUE(alone.add(make_request(0, make_prompt(each.num_prompt, 0), each.num_tokens)).ok());
    alone.drain();
    const int64_t limit = FeedbackLevels::kShare * alone.scheduler.stats().num_steps + config.guard_delay;
    EXPECT_LE(steps_under_short_requests(config, each.num_prompt, each.num_tokens), limit)
        << each.num_prompt << " + " << each.num_tokens << " tokens";
    config.guard_delay = 1 << 30;
    EXPECT_GT(steps_under_short_requests(config, each.num_prompt, each.num_tokens), limit)
        << "without the guard it starves";
  }
}

// Clients with requests of one size: which client each admission belongs to.
TEST(FairPolicy, AlternatesBetweenClientsRegardlessOfTheirQueues) {
  SchedulerConfig config = policy_config(SchedulingPolicy::kFair);
  config.max_num_seqs = 1;
  Harness harness(config, make_layout(64, 4));
  for (RequestId id = 0; id < 9; ++id) {
    Request request = make_request(id, make_prompt(8, static_cast<uint64_t>(id)), 4);
    request.client_id = id < 6 ? 1 : 2;
    ASSERT_TRUE(harness.add(request).ok());
  }
  EXPECT_THAT(drain_started(harness), ElementsAre(0, 6, 1, 7, 2, 8, 3, 4, 5));
}

TEST(FairPolicy, CountsGeneratedTokensTwice) {
  SchedulerConfig config = policy_config(SchedulingPolicy::kFair);
  config.max_num_seqs = 1;
  Harness harness(config, make_layout(64, 4));
  // 10 + 2 * 10 for a request of client 1, 10 + 2 * 1 for one of client 2: two and a half to one.
  for (RequestId id = 0; id < 12; ++id) {
    const bool talkative = id < 4;
    Request request = make_request(id, make_prompt(10, static_cast<uint64_t>(id)), talkative ? 10 : 1);
    request.client_id = talkative ? 1 : 2;
    ASSERT_TRUE(harness.add(request).ok());
  }
  EXPECT_THAT(drain_started(harness), ElementsAre(0, 4, 5, 6, 1, 7, 8, 2, 9, 10, 11, 3));
}

TEST(FairPolicy, GivesNoCreditForIdleTime) {
  SchedulerConfig config = policy_config(SchedulingPolicy::kFair);
  config.max_num_seqs = 1;
  Harness harness(config, make_layout(64, 4));
  const auto add = [&](RequestId id, int64_t client) {
    Request request = make_request(id, make_prompt(8, static_cast<uint64_t>(id)), 4);
    request.client_id = client;
    ASSERT_TRUE(harness.add(request).ok());
  };
  for (RequestId id = 0; id < 8; ++id) add(id, 1);
  harness.step();
  while (harness.scheduler.stats().num_waiting > 4) harness.step();
  // Client 2 is new: from now on it alternates with the other, without credit.
  for (RequestId id = 8; id < 12; ++id) add(id, 2);
  const std::vector<RequestId> started = drain_started(harness);
  ASSERT_EQ(started.size(), 8U);
  int32_t lead = 0;
  for (size_t i = 0; i < 8; ++i) {
    lead += started[i] >= 8 ? 1 : -1;
    EXPECT_LE(std::abs(lead), 1) << "admission " << i;
  }
}

TEST(FairPolicy, DropsCountersOfIdleClientsThatGainNothing) {
  ClientTable clients;
  const auto serve = [&](int64_t client, int64_t tokens) {
    SequenceGroup group;
    group.rank = {0, client};
    clients.enter(group, client);
    clients.push(group);
    clients.remove(group);
    ClientTable::charge(group, tokens);
    clients.leave(group);
    if (client % 16 == 0) clients.check_integrity();
  };
  for (int64_t client = 0; client < test::repetitions(100000, 20000); ++client) serve(client, client % 10);
  EXPECT_LE(clients.num_clients(), 2U);
  // A client waits with a low counter: clients with higher counters are kept, up to the limit.
  SequenceGroup waiting;
  clients.enter(waiting, -1);
  clients.push(waiting);
  const int64_t before = clients.floor();
  for (int64_t client = 200000; client < 200100; ++client) serve(client, 50);
  EXPECT_EQ(clients.num_clients(), 101U);
  for (int64_t client = 300000; client < 400000; ++client) serve(client, 50);
  EXPECT_LE(clients.num_clients(), ClientTable::kMaxIdle + 1);
  EXPECT_EQ(clients.floor(), before);
  clients.remove(waiting);
  clients.leave(waiting);
  clients.check_integrity();
}

TEST(PartialPrefills, AreLimitedToTheMaximum) {
  SchedulerConfig config = policy_config(SchedulingPolicy::kFcfs);
  config.max_num_seqs = 8;
  config.long_prefill_token_threshold = 8;
  config.max_num_partial_prefills = 2;
  Harness harness(config, make_layout(256, 4));
  for (RequestId id = 0; id < 5; ++id)
    ASSERT_TRUE(harness.add(make_request(id, make_prompt(30, static_cast<uint64_t>(id)), 3)).ok());
  // A prompt of one chunk is not a partial prefill, but waits for those before it.
  ASSERT_TRUE(harness.add(make_request(5, make_prompt(8, 5), 3)).ok());
  size_t max_partial = 0;
  while (harness.scheduler.has_work()) {
    const StepPlan& plan = harness.plan();
    size_t partial = 0;
    for (const ScheduledSequence& scheduled : plan.scheduled)
      partial += scheduled.num_computed_tokens < 30 && scheduled.num_new_tokens > 1 ? 1 : 0;
    EXPECT_LE(partial, 3U);
    max_partial = std::max(max_partial, partial);
    harness.compute();
  }
  EXPECT_GE(max_partial, 2U);
  for (RequestId id = 0; id < 6; ++id) harness.expect_as_alone(id);
}

// Virtual time: a step takes 4 ms plus 0.2 ms per token.
double seconds_of(const StepPlan& plan) {
  return 0.004 + 0.0002 * plan.num_tokens;
}

TEST(TimeTargets, TpotKeepsStepsShortDuringDecode) {
  for (const double target : {0.0, 0.02}) {
    SchedulerConfig config = policy_config(SchedulingPolicy::kFcfs);
    config.max_num_seqs = 8;
    config.max_num_batched_tokens = 512;
    config.tpot_slo = target;
    Harness harness(config, make_layout(1024, 16));
    ASSERT_TRUE(harness.add(make_request(0, make_prompt(32, 0), 300)).ok());
    for (int i = 0; i < 5; ++i) harness.step(), harness.now += seconds_of(harness.last_plan);
    ASSERT_TRUE(harness.add(make_request(1, make_prompt(2000, 1), 4)).ok());
    double worst = 0.0;
    int32_t largest = 0;
    while (!harness.requests[1].finished) {
      harness.step();
      harness.now += seconds_of(harness.last_plan);
      worst = std::max(worst, seconds_of(harness.last_plan));
      largest = std::max(largest, harness.last_plan.num_tokens);
      ASSERT_TRUE(harness.last_plan.scheduled.front().sample) << "the stream gets its token in every step";
    }
    if (target > 0.0) {
      EXPECT_LE(worst, target);
      EXPECT_GT(largest, 60) << "and the prompt what the time allows: (0.9 * 20 - 4) / 0.2 = 70 tokens";
    } else {
      EXPECT_GT(worst, 0.1);
    }
    harness.drain();
    harness.expect_as_alone(0);
    harness.expect_as_alone(1);
  }
}

TEST(TimeTargets, TtftEnlargesTheChunkOfALatePrompt) {
  double first_token[2] = {};
  int32_t first_chunk[2] = {};
  for (const int urgent : {0, 1}) {
    SchedulerConfig config = policy_config(SchedulingPolicy::kFcfs);
    config.max_num_batched_tokens = 1024;
    config.long_prefill_token_threshold = 32;
    config.ttft_slo = urgent == 1 ? 0.5 : 0.0;
    Harness harness(config, make_layout(1024, 16));
    ASSERT_TRUE(harness.add(make_request(0, make_prompt(64, 0), 3)).ok());
    while (harness.scheduler.has_work()) harness.step(), harness.now += seconds_of(harness.last_plan);
    const double arrival = harness.now;
    Request request = make_request(1, make_prompt(2000, 1), 3);
    request.arrival = arrival;
    ASSERT_TRUE(harness.add(request).ok());
    while (harness.requests[1].samples[0].token_ids.empty()) {
      harness.step();
      if (first_chunk[urgent] == 0) first_chunk[urgent] = harness.last_plan.num_tokens;
      harness.now += seconds_of(harness.last_plan);
    }
    first_token[urgent] = harness.now - arrival;
  }
  EXPECT_EQ(first_chunk[0], 32);
  EXPECT_GT(first_token[0], 0.5);
  EXPECT_GT(first_chunk[1], 32);
  EXPECT_LT(first_chunk[1], 512) << "no wider than needed";
  EXPECT_LE(first_token[1], 0.5);
}

TEST(StepClock, LearnsBaseAndSlopeDespiteOutliers) {
  StepClock clock;
  EXPECT_FALSE(clock.ready());
  EXPECT_GT(clock.tokens_within(0.001), 1 << 20) << "nothing is known: nothing is limited";
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const int64_t tokens = 1 + static_cast<int64_t>(random() % 500);
    clock.observe(tokens, 0.01 + 0.001 * static_cast<double>(tokens));
    if (i % 50 == 49) clock.observe(10, 5.0);
  }
  EXPECT_NEAR(clock.seconds_for(200), 0.21, 0.03);
  EXPECT_NEAR(static_cast<double>(clock.tokens_within(0.11)), 100.0, 20.0);
  // Steps of one size do not change the slope.
  for (int i = 0; i < 1000; ++i) clock.observe(8, 0.018);
  EXPECT_NEAR(clock.seconds_for(8), 0.018, 0.001);
  EXPECT_GT(clock.seconds_for(200), 0.1);
}

// Mean completion times of short and long requests in virtual time.
struct Completion {
  double mean_short = 0.0;
  double mean_long = 0.0;
  double worst_long = 0.0;
};

Completion simulate_mix(SchedulingPolicy policy) {
  SchedulerConfig config;
  config.policy = policy;
  config.max_num_seqs = 8;
  config.max_num_batched_tokens = 256;
  config.max_model_len = 1000;
  Harness harness(config, make_layout(2000, 16));
  std::mt19937 random(7);
  std::vector<Request> requests;
  double arrival = 0.0;
  for (RequestId id = 0; id < 200; ++id) {
    const bool is_short = id % 5 != 4;
    Request request =
        make_request(id, make_prompt(is_short ? 24 : 200, static_cast<uint64_t>(id)), is_short ? 12 : 400);
    arrival += -std::log(1.0 - static_cast<double>(random() % 10000) / 10000.0) * 0.075;
    request.arrival = arrival;
    requests.push_back(request);
  }
  std::vector<double> done(requests.size(), -1.0);
  size_t next = 0;
  while (next < requests.size() || harness.scheduler.has_work()) {
    if (!harness.scheduler.has_work()) harness.now = std::max(harness.now, requests[next].arrival);
    while (next < requests.size() && requests[next].arrival <= harness.now)
      EXPECT_TRUE(harness.add(requests[next++]).ok());
    harness.step();
    harness.now += seconds_of(harness.last_plan);
    for (size_t id = 0; id < next; ++id) {
      if (done[id] < 0.0 && harness.requests[static_cast<RequestId>(id)].finished)
        done[id] = harness.now - requests[id].arrival;
    }
  }
  Completion completion;
  for (size_t id = 0; id < done.size(); ++id) {
    harness.expect_as_alone(static_cast<RequestId>(id));
    const bool is_short = id % 5 != 4;
    (is_short ? completion.mean_short : completion.mean_long) += done[id] / (is_short ? 160.0 : 40.0);
    if (!is_short) completion.worst_long = std::max(completion.worst_long, done[id]);
  }
  return completion;
}

TEST(MlfqPolicy, FinishesShortRequestsSoonerThanFcfsWithoutStarvingLongOnes) {
  const Completion fcfs = simulate_mix(SchedulingPolicy::kFcfs);
  const Completion mlfq = simulate_mix(SchedulingPolicy::kMlfq);
  std::printf("short, mean completion: fcfs %.2f s, mlfq %.2f s, factor %.1f\n", fcfs.mean_short,
              mlfq.mean_short, fcfs.mean_short / mlfq.mean_short);
  std::printf("long, mean (worst) completion: fcfs %.2f (%.2f) s, mlfq %.2f (%.2f) s\n", fcfs.mean_long,
              fcfs.worst_long, mlfq.mean_long, mlfq.worst_long);
  EXPECT_GT(fcfs.mean_short / mlfq.mean_short, 2.0);
  EXPECT_LT(mlfq.worst_long, 2.0 * fcfs.worst_long);
}

}  // namespace
}  // namespace quire::test
