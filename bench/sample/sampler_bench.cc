// Time per sampled token, by vocabulary size and sampling parameters. Logits are normally distributed with
// the standard deviation of the second argument: 2 spreads the probability over thousands of tokens, 5 is as
// peaked as in a language model.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "sample/sampler.h"

namespace quire {
namespace {

void run(benchmark::State& bench, const SamplingParams& params, int num_bad_words = 0) {
  const auto vocab_size = static_cast<int32_t>(bench.range(0));
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.0F, static_cast<float>(bench.range(1)));
  std::vector<float> logits(static_cast<size_t>(vocab_size));
  std::generate(logits.begin(), logits.end(), [&] { return normal(generator); });
  SamplerWorkspace workspace(vocab_size);
  std::vector<TokenId> prompt(1000);
  std::generate(prompt.begin(), prompt.end(),
                [&] { return static_cast<TokenId>(generator() % static_cast<uint32_t>(vocab_size)); });
  auto words = std::make_shared<SamplingWords>();
  for (int i = 0; i < num_bad_words; ++i) words->bad_words.push_back({i + 1, i + 2});
  SamplingState state(params, prompt, {}, 7, 0, vocab_size, words);
  state.append(50);
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

void typical_p_09(benchmark::State& bench) {
  SamplingParams params;
  params.typical_p = 0.9F;
  run(bench, params);
}
void top_n_sigma_1(benchmark::State& bench) {
  SamplingParams params;
  params.top_n_sigma = 1.0F;
  run(bench, params);
}
void dynatemp(benchmark::State& bench) {
  SamplingParams params;
  params.dynatemp_range = 0.5F;
  run(bench, params);
}
void xtc(benchmark::State& bench) {
  SamplingParams params;
  params.xtc_probability = 1.0F;
  run(bench, params);
}
void mirostat_2(benchmark::State& bench) {
  SamplingParams params;
  params.mirostat_mode = 2;
  run(bench, params);
}
void min_keep_5_top_p_095(benchmark::State& bench) {
  SamplingParams params = make(1.0F, 0.95F, 0);
  params.min_keep = 5;
  run(bench, params);
}
void dry(benchmark::State& bench) {
  SamplingParams params;
  params.dry_multiplier = 0.8F;
  run(bench, params);
}
void bad_words_100(benchmark::State& bench) {
  run(bench, {}, 100);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgsProduct({{4096, 32000, 151936, 262144}, {2, 5}})
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
BENCHMARK(typical_p_09)->Apply(sizes);
BENCHMARK(top_n_sigma_1)->Apply(sizes);
BENCHMARK(dynatemp)->Apply(sizes);
BENCHMARK(xtc)->Apply(sizes);
BENCHMARK(mirostat_2)->Apply(sizes);
BENCHMARK(min_keep_5_top_p_095)->Apply(sizes);
BENCHMARK(dry)->Apply(sizes);
BENCHMARK(bad_words_100)->Apply(sizes);

}  // namespace
}  // namespace quire

BENCHMARK_MAIN();
