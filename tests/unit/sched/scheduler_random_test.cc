// Random histories of a scheduler: for any pool, batch, chunking, prefix hits, preemptions and aborts of
// other requests, every request produces the tokens that it produces alone, and the records are consistent
// after each operation.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support/environment.h"
#include "support/sanitizers.h"
#include "unit/sched/fake_executor.h"

namespace quire::test {
namespace {

struct World {
  const char* name;
  int32_t num_blocks;
  int32_t block_size;
  int32_t max_num_seqs;
  int32_t max_num_batched_tokens;
  int32_t threshold;
  bool caching;
  int32_t hash_bits;
  bool preempts;  // the pool is too small for the running sequences
  std::vector<KvGroupSpec> groups;
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  bool times = false;  // latency targets, and few partial prefills
  PreemptionMode mode = PreemptionMode::kAuto;
  int32_t num_host_blocks = 0;
  int32_t num_disk_blocks = 0;
  int32_t num_adapters = 1;
  int32_t max_loras = 32;
};

std::ostream& operator<<(std::ostream& out, const World& world) {
  return out << world.name;
}

const KvGroupSpec kFull = {KvGroupKind::kFull, 0, {}};
const KvGroupSpec kState = {KvGroupKind::kState, 0, {}};
KvGroupSpec window(int32_t tokens) {
  return {KvGroupKind::kSlidingWindow, tokens, {}};
}

KvGroupSpec chunked(int32_t tokens) {
  return {KvGroupKind::kChunked, tokens, {}};
}

class RandomHistory : public ::testing::TestWithParam<World> {
 protected:
  int32_t below(int32_t limit) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(limit)); }
  bool one_in(int32_t count) { return below(count) == 0; }

  Request random_request(RequestId id) {
    // Few prompt families, so that prefixes are shared; the tail differs.
    std::vector<TokenId> prompt = make_prompt(1 + below(40), static_cast<uint64_t>(below(3)));
    const std::vector<TokenId> tail = make_prompt(below(6), static_cast<uint64_t>(below(4)) + 50);
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    Request request = make_request(id, prompt, one_in(12) ? 0 : 1 + below(30), one_in(3) ? 1 + below(4) : 1);
    request.seed = random_() % 5;
    request.end_token_ids = {1, 2};
    if (one_in(4)) request.sampling.edit().stop_token_ids = {3, 4, 5};
    if (one_in(5)) request.sampling.edit().ignore_eos = true;
    if (one_in(5)) request.sampling.edit().min_tokens = below(request.sampling->max_tokens + 1);
    if (one_in(8)) request.sampling.edit().prompt_logprobs = 1;
    if (one_in(3)) request.sampling.edit().top_k = 2;
    if (one_in(6)) request.adapter = {.id = 1, .digest = "1"};
    if (GetParam().num_adapters > 1) {
      const int32_t adapter = below(GetParam().num_adapters + 1);
      request.adapter = {.id = adapter, .digest = adapter == 0 ? "" : std::to_string(adapter)};
    }
    if (one_in(6)) request.cache_salt = "tenant";
    if (one_in(6)) {
      SamplingParams& sampling = request.sampling.edit();
      sampling.use_beam_search = true;
      sampling.beam_width = sampling.n + below(3);
      sampling.max_tokens = 1 + below(14);
      sampling.min_tokens = 0;
      sampling.stop_token_ids.clear();
    }
    if (GetParam().policy == SchedulingPolicy::kPriority) request.priority = below(5) - 2;
    request.client_id = below(4);
    return request;
  }

  void outside_events(Harness& harness, RequestId next_id) {
    if (one_in(12) && next_id > 0) {
      const RequestId id = below(static_cast<int32_t>(next_id));
      if (harness.requests.contains(id) && !harness.requests[id].finished) harness.abort(id);
    }
    if (one_in(8) && next_id > 0) {
      const RequestId id = below(static_cast<int32_t>(next_id));
      if (harness.requests.contains(id) && !harness.requests[id].finished &&
          !harness.requests[id].request.sampling->use_beam_search) {
        harness.finish(id, below(static_cast<int32_t>(harness.requests[id].samples.size())));
      }
    }
    if (one_in(200)) harness.scheduler.reset_prefix_cache();
    harness.scheduler.check_integrity();
  }

  std::mt19937 random_;
};

TEST_P(RandomHistory, KeepsEveryOutput) {
  const World& world = GetParam();
  KvLayout layout = make_layout(world.num_blocks, world.block_size);
  layout.groups = world.groups;
  layout.num_host_blocks = world.num_host_blocks;
  layout.num_disk_blocks = world.num_disk_blocks;
  // Swapping a block of 4 tokens out and in takes about as long as computing it.
  layout.bytes_per_block = 3'000'000;
  SchedulerConfig config;
  config.max_num_seqs = world.max_num_seqs;
  config.max_num_batched_tokens = world.max_num_batched_tokens;
  config.long_prefill_token_threshold = world.threshold;
  config.max_model_len = 60;
  config.enable_prefix_caching = world.caching;
  config.hash_bits = world.hash_bits;
  config.policy = world.policy;
  config.preemption_mode = world.mode;
  config.guard_delay = 8;
  config.max_loras = world.max_loras;
  if (world.times) {
    config.max_num_partial_prefills = 2;
    config.ttft_slo = 0.3;
    config.tpot_slo = 0.02;
  }

  SchedulerStats sums;
  int accepted = 0;
  const bool plain = world.policy == SchedulingPolicy::kFcfs && !world.times && world.num_host_blocks == 0;
  // QUIRE_RANDOM_SEEDS=1000 searches longer, by hand.
  const auto num_seeds =
      static_cast<int>(test::number_of("QUIRE_RANDOM_SEEDS", test::repetitions(plain ? 40 : 25, 6)));
  for (uint32_t seed = 0; seed < static_cast<uint32_t>(num_seeds); ++seed) {
    SCOPED_TRACE(seed);
    random_.seed(seed);
    Harness harness(config, layout);
    harness.executor.disk_failures = static_cast<int>(seed % 3);
    harness.seconds_step = 0.001;
    harness.seconds_token = 0.0005;
    RequestId next_id = 0;
    std::set<RequestId> failed;
    for (int i = 0; i < 400; ++i) {
      if (one_in(3)) {
        const RequestId id = next_id++;
        Request request = random_request(id);
        request.arrival = harness.now;
        if (harness.add(std::move(request)).ok()) ++accepted;
      }
      outside_events(harness, next_id);
      // Mostly proportional to the number of tokens, sometimes much longer.
      harness.now += one_in(30) ? 0.2 : 0.001 + 0.0005 * harness.last_plan.num_tokens;
      harness.plan();
      if (one_in(60) && !harness.last_plan.scheduled.empty()) {
        harness.executor.fail_next.insert(harness.last_plan.scheduled.back().seq);
      }
      outside_events(harness, next_id);
      harness.compute();
      harness.scheduler.check_integrity();
      if (HasFailure()) return;
    }
    harness.drain();
    harness.expect_idle();
    for (const auto& [id, request] : harness.requests) {
      if (request.aborted) continue;
      const bool any_error =
          std::any_of(request.samples.begin(), request.samples.end(),
                      [](const auto& sample) { return sample.finish_reason == FinishReason::kError; });
      if (any_error) continue;
      const bool all_outside = request.finished_outside.size() == request.samples.size();
      EXPECT_TRUE(request.finished || !request.finished_outside.empty()) << "request " << id;
      if (!all_outside) harness.expect_as_alone(id);
    }
    const SchedulerStats stats = harness.scheduler.stats();
    sums.num_preemptions += stats.num_preemptions;
    sums.num_swap_outs += stats.num_swap_outs;
    sums.num_swap_ins += stats.num_swap_ins;
    sums.num_loads += stats.num_loads;
    sums.prefix_hit_tokens += stats.prefix_hit_tokens;
    sums.num_finished_requests += stats.num_finished_requests;
    if (HasFailure()) return;
  }
  EXPECT_EQ(sums.num_finished_requests, accepted);
  RecordProperty("requests", accepted);
  RecordProperty("preemptions", static_cast<int>(sums.num_preemptions));
  RecordProperty("prefix_hit_tokens", static_cast<int>(sums.prefix_hit_tokens));
  RecordProperty("swap_outs", static_cast<int>(sums.num_swap_outs));
  RecordProperty("loads", static_cast<int>(sums.num_loads));
  EXPECT_GT(accepted, 500);
  EXPECT_EQ(sums.num_preemptions > 0, world.preempts);
  EXPECT_EQ(sums.num_swap_outs > 0, world.num_host_blocks > 0 && world.mode != PreemptionMode::kRecompute);
  EXPECT_EQ(sums.num_swap_ins > 0, sums.num_swap_outs > 0);
  EXPECT_LE(sums.num_swap_outs, sums.num_preemptions);
  EXPECT_EQ(sums.num_loads > 0, world.num_disk_blocks > 0);
  EXPECT_EQ(sums.prefix_hit_tokens > 0, world.caching);
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, RandomHistory,
    ::testing::Values(
        World{"roomy", 512, 4, 64, 256, 0, true, 128, false, {kFull}},
        World{"fits_one_sequence", 15, 4, 8, 32, 0, true, 128, true, {kFull}},
        World{"tight", 24, 4, 8, 16, 0, true, 128, true, {kFull}},
        World{"tiny_chunks", 40, 4, 8, 5, 3, true, 128, true, {kFull}},
        World{"one_token_a_step", 40, 4, 8, 1, 0, true, 128, false, {kFull}},
        World{"blocks_of_one_token", 70, 1, 8, 16, 0, true, 128, true, {kFull}},
        World{"blocks_of_sixteen", 12, 16, 8, 64, 0, true, 128, true, {kFull}},
        World{"few_slots", 64, 4, 4, 64, 0, true, 128, false, {kFull}},
        World{"no_cache", 24, 4, 8, 16, 0, false, 128, true, {kFull}},
        World{"colliding_hashes", 40, 4, 8, 32, 0, true, 3, true, {kFull}},
        World{"all_hashes_equal", 40, 4, 8, 32, 0, true, 1, true, {kFull}},
        World{"window", 40, 4, 8, 16, 0, true, 128, false, {window(9)}},
        World{"full_and_window", 48, 4, 8, 16, 0, true, 128, true, {kFull, window(10)}},
        World{"full_and_two_windows", 70, 4, 8, 8, 0, true, 128, true, {window(5), kFull, window(17)}},
        World{"full_and_window_tight", 26, 4, 8, 16, 0, true, 128, true, {kFull, window(10)}},
        World{"window_groups_of_one_kind", 60, 4, 8, 16, 0, true, 128, true, {kFull, window(6), window(6)}},
        World{"chunked", 40, 4, 8, 16, 0, true, 128, false, {chunked(8)}},
        World{"full_and_chunked", 48, 4, 8, 16, 0, true, 128, true, {kFull, chunked(10)}},
        World{"states", 24, 1, 8, 32, 0, true, 128, false, {kState}},
        World{"full_and_states", 120, 1, 8, 32, 0, true, 128, true, {kFull, kState}}),
    [](const auto& param) { return std::string(param.param.name); });

std::vector<World> worlds_of_policies() {
  std::vector<World> worlds;
  const auto add = [&](const char* name, SchedulingPolicy policy, World world) {
    world.name = name;
    world.policy = policy;
    worlds.push_back(world);
  };
  const World tight = {"", 24, 4, 8, 16, 0, true, 128, true, {kFull}};
  const World one_sequence = {"", 15, 4, 8, 32, 0, false, 128, true, {kFull}};
  const World few_slots = {"", 64, 4, 4, 8, 3, true, 128, true, {kFull, window(10)}};
  const World roomy = {"", 300, 4, 64, 64, 4, true, 128, false, {kFull}, SchedulingPolicy::kFcfs, true};
  add("priority_tight", SchedulingPolicy::kPriority, tight);
  add("priority_one_sequence", SchedulingPolicy::kPriority, one_sequence);
  add("priority_few_slots", SchedulingPolicy::kPriority, few_slots);
  add("mlfq_tight", SchedulingPolicy::kMlfq, tight);
  add("mlfq_one_sequence", SchedulingPolicy::kMlfq, one_sequence);
  add("mlfq_few_slots", SchedulingPolicy::kMlfq, few_slots);
  add("fair_tight", SchedulingPolicy::kFair, tight);
  add("fair_one_sequence", SchedulingPolicy::kFair, one_sequence);
  add("fcfs_times", SchedulingPolicy::kFcfs, roomy);
  World times = tight;
  times.times = true;
  add("fcfs_tight_times", SchedulingPolicy::kFcfs, times);
  add("priority_tight_times", SchedulingPolicy::kPriority, times);
  return worlds;
}

std::vector<World> worlds_of_tiers() {
  std::vector<World> worlds;
  const auto add = [&](const char* name, SchedulingPolicy policy, PreemptionMode mode,
                       int32_t num_host_blocks, int32_t num_disk_blocks, World world) {
    world.name = name;
    world.policy = policy;
    world.mode = mode;
    world.num_host_blocks = num_host_blocks;
    world.num_disk_blocks = num_disk_blocks;
    worlds.push_back(world);
  };
  const World tight = {"", 24, 4, 8, 16, 0, true, 128, true, {kFull}};
  const World uncached = {"", 24, 4, 8, 16, 0, false, 128, true, {kFull}};
  const World windows = {"", 70, 4, 8, 8, 0, true, 128, true, {window(5), kFull, window(17)}};
  const World chunks = {"", 70, 4, 8, 8, 0, true, 128, true, {kFull, chunked(6), chunked(16)}};
  // Most prompts are shorter than a block, so that preempted samples compute them one by one.
  const World large_blocks = {"", 6, 32, 8, 64, 0, true, 128, true, {kFull}};
  using Policy = SchedulingPolicy;
  using Mode = PreemptionMode;
  add("swap_fcfs", Policy::kFcfs, Mode::kSwap, 200, 0, tight);
  add("swap_small_host", Policy::kFcfs, Mode::kSwap, 13, 0, tight);
  add("swap_priority", Policy::kPriority, Mode::kSwap, 60, 0, tight);
  add("swap_mlfq", Policy::kMlfq, Mode::kSwap, 60, 0, tight);
  add("swap_fair", Policy::kFair, Mode::kSwap, 60, 0, tight);
  add("swap_windows", Policy::kPriority, Mode::kSwap, 60, 0, windows);
  add("swap_no_cache", Policy::kMlfq, Mode::kSwap, 60, 0, uncached);
  add("auto_fcfs", Policy::kFcfs, Mode::kAuto, 60, 0, tight);
  add("auto_priority", Policy::kPriority, Mode::kAuto, 60, 0, tight);
  add("recompute_with_host", Policy::kPriority, Mode::kRecompute, 60, 0, tight);
  add("disk_fcfs", Policy::kFcfs, Mode::kAuto, 40, 200, tight);
  add("disk_small", Policy::kMlfq, Mode::kSwap, 20, 30, tight);
  add("disk_windows", Policy::kFair, Mode::kAuto, 60, 400, windows);
  add("swap_large_blocks", Policy::kMlfq, Mode::kSwap, 8, 0, large_blocks);
  add("swap_chunks", Policy::kMlfq, Mode::kSwap, 60, 0, chunks);
  add("disk_chunks", Policy::kFcfs, Mode::kAuto, 60, 400, chunks);
  return worlds;
}

// Adapters that take turns.
std::vector<World> worlds_of_adapters() {
  std::vector<World> worlds;
  const auto add = [&](const char* name, SchedulingPolicy policy, int32_t num_adapters, int32_t max_loras,
                       World world) {
    world.name = name;
    world.policy = policy;
    world.num_adapters = num_adapters;
    world.max_loras = max_loras;
    worlds.push_back(world);
  };
  const World tight = {"", 24, 4, 8, 16, 0, true, 128, true, {kFull}};
  const World roomy = {"", 512, 4, 64, 64, 4, true, 128, false, {kFull}, SchedulingPolicy::kFcfs, true};
  const World windows = {"", 70, 4, 8, 8, 0, true, 128, true, {window(5), kFull, window(17)}};
  const World states = {"", 120, 1, 8, 32, 0, true, 128, true, {kFull, kState}};
  World swap = tight;
  swap.mode = PreemptionMode::kSwap;
  swap.num_host_blocks = 60;
  World disk = tight;
  disk.num_host_blocks = 40;
  disk.num_disk_blocks = 200;
  World times = tight;
  times.times = true;
  using Policy = SchedulingPolicy;
  add("adapters_fcfs", Policy::kFcfs, 4, 1, tight);
  add("adapters_two_of_five", Policy::kFcfs, 5, 2, roomy);
  add("adapters_priority", Policy::kPriority, 4, 1, tight);
  add("adapters_mlfq", Policy::kMlfq, 4, 2, tight);
  add("adapters_fair", Policy::kFair, 4, 1, tight);
  add("adapters_times", Policy::kPriority, 4, 1, times);
  add("adapters_windows", Policy::kFcfs, 3, 1, windows);
  add("adapters_states", Policy::kFcfs, 3, 1, states);
  add("adapters_swap", Policy::kMlfq, 4, 1, swap);
  add("adapters_swap_priority", Policy::kPriority, 8, 3, swap);
  add("adapters_disk", Policy::kFair, 4, 1, disk);
  return worlds;
}

INSTANTIATE_TEST_SUITE_P(Adapters, RandomHistory, ::testing::ValuesIn(worlds_of_adapters()),
                         [](const auto& param) { return std::string(param.param.name); });

INSTANTIATE_TEST_SUITE_P(Tiers, RandomHistory, ::testing::ValuesIn(worlds_of_tiers()),
                         [](const auto& param) { return std::string(param.param.name); });

INSTANTIATE_TEST_SUITE_P(Policies, RandomHistory, ::testing::ValuesIn(worlds_of_policies()),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace quire::test
