#include "sim/simulator.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "base/error.h"

namespace quire::sim {
namespace {

// A step takes a second plus a millisecond per token.
CostModel a_second_a_step() {
  return CostModel(LinearCost{1.0, 1e-3, 0.0, 0.0, 0.0});
}

SimOptions options_of(int32_t num_blocks, int32_t max_num_seqs = 64) {
  SimOptions options;
  options.replica.scheduler.max_num_seqs = max_num_seqs;
  options.replica.scheduler.max_num_batched_tokens = 512;
  options.replica.scheduler.max_model_len = 4096;
  options.replica.layout.block_size = 16;
  options.replica.layout.num_blocks = num_blocks;
  return options;
}

Trace azure_like(int64_t num_requests, double rate = std::numeric_limits<double>::infinity()) {
  Distribution distribution;
  distribution.num_requests = num_requests;
  distribution.input_mean = 120.0;
  distribution.output_mean = 40.0;
  distribution.max_len = 1000;
  Trace trace = draw_trace(distribution, 11);
  set_arrivals(trace, rate, 1.0, 11);
  return trace;
}

int64_t output_tokens(const Trace& trace) {
  int64_t sum = 0;
  for (const TraceRequest& request : trace.requests) sum += request.output_len;
  return sum;
}

TEST(Simulator, SumsTheStepsOfARequest) {
  Trace trace;
  trace.requests = {{5.0, 600, 3, 0, 0}};
  const SimResult result = simulate(trace, a_second_a_step(), options_of(100));
  // 512 tokens, then 88 and the first token, then two steps of one token.
  EXPECT_NEAR(ttft(trace.requests[0], result.outcomes[0]), 1.512 + 1.088, 1e-9);
  EXPECT_NEAR(e2e(trace.requests[0], result.outcomes[0]), 1.512 + 1.088 + 2.002, 1e-9);
  EXPECT_NEAR(tpot(result.outcomes[0], 1), 1.001, 1e-9);
  EXPECT_EQ(result.totals.num_steps, 4);
  EXPECT_EQ(result.output_tokens, 3);
  EXPECT_NEAR(result.itl.mean(), 1.001, 1e-9);
  EXPECT_NEAR(result.itl.percentile(50), 1.001, 0.003);
}

TEST(Simulator, AddsThePauseCostToTheFirstStepOnly) {
  LinearCost cost{1.0, 1e-3, 0.0, 0.0, 0.0};
  cost.per_pause = 0.25;
  Trace trace;
  trace.requests = {{5.0, 100, 3, 0, 0}, {50.0, 100, 1, 0, 0}};
  const SimResult result = simulate(trace, CostModel(cost), options_of(100));
  EXPECT_NEAR(ttft(trace.requests[0], result.outcomes[0]), 1.35, 1e-9);
  EXPECT_NEAR(e2e(trace.requests[0], result.outcomes[0]), 1.35 + 2.002, 1e-9);
  EXPECT_NEAR(ttft(trace.requests[1], result.outcomes[1]), 1.35, 1e-9);
}

// Recurrent layers need state blocks per sequence in addition to the blocks of its tokens.
TEST(Simulator, CountsStateBlocks) {
  Trace trace;
  trace.requests = {{0.0, 100, 5, 0, 0}, {0.0, 100, 5, 0, 0}};
  SimOptions options = options_of(16);
  const auto with_groups = [&](std::vector<KvGroupSpec> groups) {
    options.replica.layout.groups = std::move(groups);
    return simulate(trace, a_second_a_step(), options);
  };
  const KvGroupSpec tokens{};
  const KvGroupSpec states{KvGroupKind::kState, 0, {}};
  EXPECT_EQ(with_groups({tokens}).num_refused, 0);
  EXPECT_EQ(with_groups({tokens, states, states}).num_refused, 0);
  EXPECT_GT(with_groups({tokens, states, states}).elapsed, with_groups({tokens}).elapsed);
  EXPECT_EQ(with_groups({tokens, states, states, states, states, states}).num_refused, 2);
  trace.requests = {{0.0, 3000, 5, 0, 0}};
  EXPECT_EQ(with_groups({tokens}).num_refused, 1);
  EXPECT_EQ(with_groups({states}).num_refused, 0) << "nothing is kept of single tokens";
}

TEST(Simulator, AdmitsArrivalsAtTheEndOfAStep) {
  Trace trace;
  trace.requests = {{0.0, 10, 1, 0, 0}, {0.5, 10, 1, 0, 0}};
  const SimResult result = simulate(trace, a_second_a_step(), options_of(100));
  EXPECT_NEAR(result.outcomes[0].first_token, 1.010, 1e-9);
  EXPECT_NEAR(result.outcomes[1].first_token, 2.020, 1e-9);
}

TEST(Simulator, MatchesTheSchedulersWasteAndGeneratesEveryToken) {
  const Trace trace = azure_like(300);
  const SimOptions options = options_of(200);
  const SimResult result = simulate(trace, a_second_a_step(), options);
  EXPECT_EQ(result.num_done, 300);
  EXPECT_EQ(result.output_tokens, output_tokens(trace));
  EXPECT_GT(result.totals.num_preemptions, 0) << "the pool is meant to be tight";
  // The same requests through a scheduler without the simulator.
  Scheduler scheduler(options.replica.scheduler, options.replica.layout);
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    Request request;
    request.id = static_cast<RequestId>(i);
    fill_prompt(trace, static_cast<int64_t>(i), request.prompt_token_ids);
    request.sampling.edit().max_tokens = trace.requests[i].output_len;
    request.sampling.edit().ignore_eos = true;
    ASSERT_TRUE(scheduler.add_request(std::move(request)).ok());
  }
  while (scheduler.has_work()) {
    const StepPlan& plan = scheduler.schedule(0.0);
    StepResult step{.step = plan.step};
    for (const ScheduledSequence& s : plan.scheduled)
      if (s.sample) step.sampled.push_back({s.seq, 1 << 30, 0.0F, {}});
    if (!plan.scheduled.empty()) scheduler.commit(step);
  }
  const SchedulerStats stats = scheduler.stats();
  EXPECT_EQ(result.totals.num_steps, stats.num_steps);
  EXPECT_EQ(result.totals.num_preemptions, stats.num_preemptions);
  EXPECT_EQ(result.totals.num_computed_tokens, stats.num_computed_tokens);
  EXPECT_NEAR(result.all_steps.waste(), stats.mean_kv_waste, 1e-12);
}

TEST(Simulator, FindsThePrefixesOfTheTrace) {
  Trace trace;
  trace.hash_ids = {1, 2, 1, 3};
  trace.requests = {{0.0, 1024, 2, 0, 2}, {100.0, 1024, 2, 2, 2}};
  const SimResult result = simulate(trace, a_second_a_step(), options_of(200));
  EXPECT_EQ(result.totals.prefix_queried_tokens, 2048);
  EXPECT_EQ(result.totals.prefix_hit_tokens, 512);
  EXPECT_LT(ttft(trace.requests[1], result.outcomes[1]), ttft(trace.requests[0], result.outcomes[0]));
}

TEST(Simulator, AdaptersTakeTurns) {
  Trace trace;
  trace.adapters = {"sql", "chat"};
  trace.requests = {{0.0, 10, 200, 0, 0, 1}, {0.0, 10, 5, 0, 0, 2}, {0.0, 10, 5, 0, 0, 0}};
  SimOptions options = options_of(100);
  const auto first_token = [&](size_t request) {
    return ttft(trace.requests[request], simulate(trace, a_second_a_step(), options).outcomes[request]);
  };
  EXPECT_LT(first_token(1), 1.1);
  options.replica.scheduler.max_loras = 1;
  EXPECT_LT(first_token(0), 1.1);
  EXPECT_GT(first_token(1), 16.0);
  EXPECT_LT(first_token(1), 18.0);
  EXPECT_LT(first_token(2), 1.1) << "the base model takes no turn";
}

TEST(Simulator, SharesTheEngineBetweenAdapters) {
  Trace trace;
  trace.adapters = {"sql", "chat"};
  for (int i = 0; i < 10; ++i) trace.requests.push_back({0.0, 10, 5, 0, 0, i == 9 ? 2 : 1});
  SimOptions options = options_of(100, 1);
  options.replica.scheduler.policy = SchedulingPolicy::kFair;
  const auto end = [&](FairBy fair_by) {
    options.replica.scheduler.fair_by = fair_by;
    return e2e(trace.requests[9], simulate(trace, a_second_a_step(), options).outcomes[9]);
  };
  EXPECT_GT(end(FairBy::kClient), 50.0) << "the last of ten";
  EXPECT_LT(end(FairBy::kAdapter), 11.0) << "the second";
}

TEST(Simulator, RejectsOversizedRequestsAndAFullQueue) {
  Trace trace;
  trace.requests = {{0.0, 1000, 5, 0, 0}, {0.1, 10, 5, 0, 0}, {1.5, 10, 5, 0, 0}, {1.6, 10, 5, 0, 0}};
  SimOptions options = options_of(20);
  options.replica.max_num_queued_requests = 1;
  const SimResult result = simulate(trace, a_second_a_step(), options);
  EXPECT_FALSE(result.outcomes[0].done()) << "1004 tokens do not fit into 320 slots";
  EXPECT_TRUE(result.outcomes[1].done());
  EXPECT_TRUE(result.outcomes[2].done());
  EXPECT_FALSE(result.outcomes[3].done()) << "one waits already";
  EXPECT_EQ(result.num_refused, 2);
  EXPECT_EQ(result.num_done, 2);
}

TEST(Simulator, SharesThePromptsBlocksBetweenSamples) {
  Trace trace;
  trace.requests = {{0.0, 160, 17, 0, 0}};
  SimOptions options = options_of(200);
  options.replica.num_samples = 4;
  const SimResult result = simulate(trace, a_second_a_step(), options);
  EXPECT_EQ(result.output_tokens, 4 * 17);
  EXPECT_EQ(result.num_done, 1);
  // 1 step of 10 blocks; then 16 steps in which four tables of 11 blocks hold the prompt's 10 once and one
  // more each.
  EXPECT_NEAR(result.all_steps.saved(), 1.0 - (10.0 + 16 * 14.0) / (10.0 + 16 * 44.0), 1e-9);
}

TEST(Simulator, CountsReservedSlotsOfContiguousManagersAsWaste) {
  Trace trace;
  trace.requests = {{0.0, 100, 5, 0, 0}};
  SimOptions options = options_of(256);
  options.replica.scheduler.max_model_len = 2048;
  options.replica.allocator = RangeAllocator::kFirstFit;
  const auto held_and_unused = [&](MemoryManager memory) {
    options.replica.memory = memory;
    const SimResult result = simulate(trace, a_second_a_step(), options);
    EXPECT_EQ(result.output_tokens, 5);
    const double steps = static_cast<double>(result.all_steps.num_steps);
    return std::pair(result.all_steps.held / steps, result.all_steps.unused / steps);
  };
  EXPECT_EQ(held_and_unused(MemoryManager::kOracle), std::pair(105.0, 0.0));
  EXPECT_EQ(held_and_unused(MemoryManager::kPowerOfTwo), std::pair(108.0, 3.0));
  EXPECT_EQ(held_and_unused(MemoryManager::kMaxLength), std::pair(2048.0, 2048.0 - 105.0));
  options.replica.allocator = RangeAllocator::kBuddy;
  EXPECT_EQ(held_and_unused(MemoryManager::kOracle), std::pair(128.0, 0.0)) << "rounding is counted apart";
}

TEST(Simulator, KeepsTheBatchesWithContiguousManagers) {
  // With enough memory, the manager does not affect the steps.
  const Trace trace = azure_like(100);
  SimOptions options = options_of(100'000);
  options.replica.scheduler.enable_prefix_caching = false;
  const SimResult paged = simulate(trace, a_second_a_step(), options);
  options.replica.memory = MemoryManager::kOracle;
  const SimResult oracle = simulate(trace, a_second_a_step(), options);
  EXPECT_EQ(paged.totals.num_steps, oracle.totals.num_steps);
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    ASSERT_EQ(paged.outcomes[i].first_token, oracle.outcomes[i].first_token) << i;
    ASSERT_EQ(paged.outcomes[i].last_token, oracle.outcomes[i].last_token) << i;
  }
}

TEST(Simulator, PagingFitsMoreSequencesIntoATightPool) {
  const Trace trace = azure_like(200);
  SimOptions options = options_of(256);
  options.replica.scheduler.max_model_len = 2000;
  const auto running = [&](MemoryManager memory) {
    options.replica.memory = memory;
    return simulate(trace, a_second_a_step(), options).all_steps.mean_running();
  };
  const double paged = running(MemoryManager::kPaged);
  const double oracle = running(MemoryManager::kOracle);
  const double max_length = running(MemoryManager::kMaxLength);
  EXPECT_GT(paged, oracle);
  EXPECT_GT(oracle, max_length);
}

TEST(Simulator, DistributesTheLoadOverReplicas) {
  const Trace trace = azure_like(200, 2.0);
  SimOptions options = options_of(400);
  const double alone = simulate(trace, a_second_a_step(), options).elapsed;
  for (const auto routing : {Routing::kRoundRobin, Routing::kLeastLoaded, Routing::kPrefixAware}) {
    options.num_replicas = 4;
    options.routing = routing;
    const SimResult result = simulate(trace, a_second_a_step(), options);
    EXPECT_EQ(result.num_done, 200);
    EXPECT_EQ(result.output_tokens, output_tokens(trace));
    EXPECT_LT(result.elapsed, alone);
    std::vector<int> count(4, 0);
    for (const RequestOutcome& outcome : result.outcomes) ++count[static_cast<size_t>(outcome.replica)];
    for (const int each : count) EXPECT_GT(each, 20);
  }
}

TEST(Simulator, PrefixAwareRoutingKeepsConversationsTogether) {
  // 8 interleaved conversations; the prompts of each share a prefix.
  Trace trace;
  for (int i = 0; i < 64; ++i) {
    const uint32_t first = static_cast<uint32_t>(trace.hash_ids.size());
    trace.hash_ids.insert(trace.hash_ids.end(), {i % 8, 100 + i});
    trace.requests.push_back({3.0 * i, 1024, 2, first, 2});
  }
  SimOptions options = options_of(2000);
  options.num_replicas = 3;
  const auto hits = [&](Routing routing) {
    options.routing = routing;
    return simulate(trace, a_second_a_step(), options).totals.prefix_hit_tokens;
  };
  EXPECT_EQ(hits(Routing::kPrefixAware), 56 * 512) << "all but the first of each conversation";
  EXPECT_LT(hits(Routing::kRoundRobin), 56 * 512);
}

TEST(TimeSeries, HalvesItsResolutionWithoutLosingSamples) {
  TimeSeries series(1.0);
  KvUse kv;
  kv.held = 10;
  for (int i = 0; i < 5000; ++i) series.add(kv, i, i + 1.0);
  double busy = 0.0, held = 0.0;
  for (const SeriesPoint& point : series.points()) {
    busy += point.busy;
    held += point.held;
  }
  EXPECT_NEAR(busy, 5000.0, 1e-6);
  EXPECT_NEAR(held, 50000.0, 1e-6);
  EXPECT_EQ(series.width(), 16.0);
  EXPECT_NEAR(series.points()[3].busy, 16.0, 1e-9);
}

TEST(LogHistogram, PercentilesAreWithinABucket) {
  LogHistogram histogram;
  for (int i = 1; i <= 1000; ++i) histogram.add(i * 1e-3);
  EXPECT_NEAR(histogram.mean(), 0.5005, 1e-9);
  EXPECT_NEAR(histogram.percentile(50), 0.5, 0.5 * 0.003);
  EXPECT_NEAR(histogram.percentile(99), 0.99, 0.99 * 0.003);
  EXPECT_EQ(LogHistogram().percentile(50), 0.0);
}

}  // namespace
}  // namespace quire::sim
