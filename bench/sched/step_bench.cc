// The cost of one step of the scheduler (schedule and commit) without an executor: what the engine thread
// adds to every token. Sequences of 4,096 tokens in steady decode, in a pool that holds them all.
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
constexpr int32_t kMaxModelLen = 2 * kPromptTokens;

// Draws the same token for every sequence that asks for one.
void answer(const StepPlan& plan, StepResult& result) {
  result.step = plan.step;
  result.sampled.clear();
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    if (scheduled.sample) result.sampled.push_back({scheduled.seq, 7, -1.0F, {}});
  }
}

std::unique_ptr<Scheduler> make_scheduler(int32_t num_sequences, int32_t num_blocks) {
  SchedulerConfig config;
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
    SchedulerRequest request;
    request.id = i;
    // Of different lengths by up to a block, so that not all need a block in the same step.
    request.prompt_token_ids.resize(static_cast<size_t>(kPromptTokens - i % kBlockSize));
    for (size_t t = 0; t < request.prompt_token_ids.size(); ++t) {
      request.prompt_token_ids[t] = static_cast<TokenId>(static_cast<size_t>(i) * 7919 + t);
    }
    request.sampling.max_tokens = kPromptTokens;
    request.sampling.ignore_eos = true;
    if (!scheduler.add_request(std::move(request)).ok()) std::abort();
  }
}

// One more token for each of N running sequences.
void steady_decode(benchmark::State& state) {
  const int32_t num_sequences = static_cast<int32_t>(state.range(0));
  const int32_t num_blocks = num_sequences * (kPromptTokens / kBlockSize) * 2;
  std::unique_ptr<Scheduler> scheduler;
  StepResult result;
  int32_t grown = 0;
  for (auto _ : state) {
    if (scheduler == nullptr || grown >= kPromptTokens / 2) {
      state.PauseTiming();
      scheduler = make_scheduler(num_sequences, num_blocks);
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
BENCHMARK(steady_decode)->Arg(1)->Arg(256)->Arg(1024)->Unit(benchmark::kMicrosecond);

// A prompt of 4,096 tokens that is wholly in the prefix cache: admission, one token, release.
void cached_prompt(benchmark::State& state) {
  std::unique_ptr<Scheduler> scheduler = make_scheduler(4, 4 * kPromptTokens / kBlockSize);
  StepResult result;
  RequestId id = 0;
  for (auto _ : state) {
    SchedulerRequest request;
    request.id = id++;
    request.prompt_token_ids.assign(kPromptTokens, 5);
    request.sampling.max_tokens = 1;
    if (!scheduler->add_request(std::move(request)).ok()) std::abort();
    const StepPlan& plan = scheduler->schedule();
    answer(plan, result);
    benchmark::DoNotOptimize(&scheduler->commit(result));
  }
}
BENCHMARK(cached_prompt)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quire
