// Time per sampled token, by vocabulary size and sampling parameters. Logits are normally distributed with
// the standard deviation of the second argument: 2 spreads the probability over thousands of tokens, 5 is as
// peaked as in a language model.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <vector>

#include "sample/sampler.h"

namespace quire {
namespace {

void run(benchmark::State& bench, const SamplingParams& params) {
  const auto vocab_size = static_cast<int32_t>(bench.range(0));
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.0F, static_cast<float>(bench.range(1)));
  std::vector<float> logits(static_cast<size_t>(vocab_size));
  std::generate(logits.begin(), logits.end(), [&] { return normal(generator); });
  SamplerWorkspace workspace(vocab_size);
  std::vector<TokenId> prompt(1000);
  std::generate(prompt.begin(), prompt.end(),
                [&] { return static_cast<TokenId>(generator() % static_cast<uint32_t>(vocab_size)); });
  const SamplingState state(params, prompt, {}, 7, 0, vocab_size);
  int64_t position = 0;
  for (auto _ : bench) {
    auto outcome = sample_token(logits, state, position, workspace);
    benchmark::DoNotOptimize(outcome);
    ++position;
  }
}

SamplingParams make(float temperature, float top_p, int32_t top_k) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_p = top_p;
  params.top_k = top_k;
  return params;
}

void greedy(benchmark::State& bench) {
  run(bench, make(0.0F, 1.0F, 0));
}
void temperature_1(benchmark::State& bench) {
  run(bench, make(1.0F, 1.0F, 0));
}
void temperature_07(benchmark::State& bench) {
  run(bench, make(0.7F, 1.0F, 0));
}
void top_p_095(benchmark::State& bench) {
  run(bench, make(1.0F, 0.95F, 0));
}
void top_k_50_top_p_095(benchmark::State& bench) {
  run(bench, make(0.7F, 0.95F, 50));
}
void logprobs_5(benchmark::State& bench) {
  SamplingParams params = make(1.0F, 1.0F, 0);
  params.logprobs = 5;
  run(bench, params);
}
void repetition_penalty(benchmark::State& bench) {
  SamplingParams params = make(1.0F, 1.0F, 0);
  params.repetition_penalty = 1.1F;
  run(bench, params);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgsProduct({{4096, 32000, 151936}, {2, 5}})
      ->ArgNames({"vocab", "spread"})
      ->Unit(benchmark::kMicrosecond);
}

BENCHMARK(greedy)->Apply(sizes);
BENCHMARK(temperature_1)->Apply(sizes);
BENCHMARK(temperature_07)->Apply(sizes);
BENCHMARK(top_p_095)->Apply(sizes);
BENCHMARK(top_k_50_top_p_095)->Apply(sizes);
BENCHMARK(logprobs_5)->Apply(sizes);
BENCHMARK(repetition_penalty)->Apply(sizes);

}  // namespace
}  // namespace quire

BENCHMARK_MAIN();
