// Time of one scheduler step (schedule and commit) without an executor, that is, the engine thread's overhead
// per token. Cases: sequences of 4,096 tokens in steady decode, in a pool that fits all of them, and requests
// that start and finish while many wait.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include "sched/scheduler.h"

namespace quire {
namespace {

constexpr int32_t kBlockSize = 16;
constexpr int32_t kPromptTokens = 4096;
constexpr int32_t kNewTokens = 640;       // maximum per sequence
constexpr int32_t kMeasuredTokens = 512;  // after this many tokens, new sequences start
constexpr int32_t kMaxModelLen = kPromptTokens + kNewTokens;

// Samples the same token for every sequence.
void answer(const StepPlan& plan, StepResult& result) {
  result.step = plan.step;
  result.sampled.clear();
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    if (scheduled.sample) result.sampled.push_back({scheduled.seq, 7, -1.0F, {}});
  }
}

std::unique_ptr<Scheduler> make_scheduler(int32_t num_sequences, int32_t num_blocks,
                                          SchedulingPolicy policy = SchedulingPolicy::kFcfs) {
  SchedulerConfig config;
  config.policy = policy;
  config.max_num_seqs = num_sequences;
  config.max_num_batched_tokens = num_sequences + 8 * kPromptTokens;
  config.max_model_len = kMaxModelLen;
  KvLayout layout;
  layout.block_size = kBlockSize;
  layout.num_blocks = num_blocks;
  return std::make_unique<Scheduler>(config, layout);
}

void add_sequences(Scheduler& scheduler, int32_t num_sequences) {
  for (int32_t i = 0; i < num_sequences; ++i) {
    Request request;
    request.id = i;
    // Lengths differ by up to a block, so that the sequences need new blocks in different steps.
    request.prompt_token_ids.resize(static_cast<size_t>(kPromptTokens - i % kBlockSize));
    for (size_t t = 0; t < request.prompt_token_ids.size(); ++t) {
      request.prompt_token_ids[t] = static_cast<TokenId>(static_cast<size_t>(i) * 7919 + t);
    }
    request.sampling.edit().max_tokens = kNewTokens;
    request.client_id = i % 64;
    request.sampling.edit().ignore_eos = true;
    if (!scheduler.add_request(std::move(request)).ok()) std::abort();
  }
}

// One token for each of N running sequences.
void steady_decode(benchmark::State& state, SchedulingPolicy policy) {
  const int32_t num_sequences = static_cast<int32_t>(state.range(0));
  const int32_t num_blocks = num_sequences * (kMaxModelLen / kBlockSize) + num_sequences / 10 + 1;
  std::unique_ptr<Scheduler> scheduler;
  StepResult result;
  int32_t grown = 0;
  for (auto _ : state) {
    if (scheduler == nullptr || grown >= kMeasuredTokens) {
      state.PauseTiming();
      scheduler.reset();
      scheduler = make_scheduler(num_sequences, num_blocks, policy);
      add_sequences(*scheduler, num_sequences);
      do {
        const StepPlan& plan = scheduler->schedule();
        answer(plan, result);
        scheduler->commit(result);
      } while (scheduler->stats().num_waiting > 0);
      grown = 0;
      state.ResumeTiming();
    }
    const StepPlan& plan = scheduler->schedule();
    state.PauseTiming();
    answer(plan, result);
    state.ResumeTiming();
    benchmark::DoNotOptimize(&scheduler->commit(result));
    ++grown;
  }
  if (scheduler->stats().num_preemptions > 0) state.SkipWithError("the pool was too small");
  state.counters["ns_a_sequence"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * num_sequences,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(steady_decode, fcfs, SchedulingPolicy::kFcfs)
    ->Arg(1)
    ->Arg(256)
    ->Arg(1024)
    ->Arg(4096)
    ->Arg(16384)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(steady_decode, priority, SchedulingPolicy::kPriority)
    ->Arg(1024)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(steady_decode, mlfq, SchedulingPolicy::kMlfq)->Arg(1024)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(steady_decode, fair, SchedulingPolicy::kFair)->Arg(1024)->Unit(benchmark::kMicrosecond);

// A request arrives and one finishes, while one runs and N wait.
void queue(benchmark::State& state, SchedulingPolicy policy) {
  SchedulerConfig config;
  config.policy = policy;
  config.max_num_seqs = 1;
  config.enable_prefix_caching = false;
  KvLayout layout;
  layout.num_blocks = 1024;
  Scheduler scheduler(config, layout);
  uint64_t random = 1;
  RequestId next = 0;
  const auto add = [&] {
    random = random * 6364136223846793005 + 1442695040888963407;
    Request request;
    request.id = next++;
    request.prompt_token_ids.assign(8, 5);
    request.client_id = static_cast<int64_t>((random >> 33) % 1000);
    if (policy == SchedulingPolicy::kPriority) request.priority = static_cast<int32_t>(random >> 40);
    if (!scheduler.add_request(std::move(request)).ok()) std::abort();
  };
  for (int64_t i = 0; i < state.range(0); ++i) add();
  for (auto _ : state) {
    add();
    random = random * 6364136223846793005 + 1442695040888963407;
    scheduler.abort_request(static_cast<RequestId>((random >> 20) % static_cast<uint64_t>(next)));
  }
}
BENCHMARK_CAPTURE(queue, fcfs, SchedulingPolicy::kFcfs)->Arg(1000)->Arg(100000);
BENCHMARK_CAPTURE(queue, priority, SchedulingPolicy::kPriority)->Arg(1000)->Arg(100000);
BENCHMARK_CAPTURE(queue, mlfq, SchedulingPolicy::kMlfq)->Arg(1000)->Arg(100000);
BENCHMARK_CAPTURE(queue, fair, SchedulingPolicy::kFair)->Arg(1000)->Arg(100000);

// A prompt of 4,096 tokens that is in the prefix cache: admission, one token, freeing its blocks.
void cached_prompt(benchmark::State& state) {
  std::unique_ptr<Scheduler> scheduler = make_scheduler(4, 4 * kPromptTokens / kBlockSize);
  StepResult result;
  RequestId id = 0;
  for (auto _ : state) {
    Request request;
    request.id = id++;
    request.prompt_token_ids.assign(kPromptTokens, 5);
    request.sampling.edit().max_tokens = 1;
    if (!scheduler->add_request(std::move(request)).ok()) std::abort();
    const StepPlan& plan = scheduler->schedule();
    answer(plan, result);
    benchmark::DoNotOptimize(&scheduler->commit(result));
  }
}
BENCHMARK(cached_prompt)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quire
