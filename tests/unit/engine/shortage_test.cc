// KV memory for a tenth of the load: every request finishes with the output that it gets alone, for every
// scheduling policy and both preemption modes.
#include <cstdlib>
#include <map>

#include "unit/engine/engine_testing.h"

namespace quire {
namespace {

using test::Answer;
using test::Pending;

constexpr int kNumShortRequests = 60;
constexpr int kLoadOverMemory = 10;

struct ShortageSetting {
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  PreemptionMode mode = PreemptionMode::kRecompute;
};

std::string name_of(const ShortageSetting& setting) {
  static const std::map<SchedulingPolicy, std::string> policies = {{SchedulingPolicy::kFcfs, "Fcfs"},
                                                                   {SchedulingPolicy::kPriority, "Priority"},
                                                                   {SchedulingPolicy::kMlfq, "Mlfq"},
                                                                   {SchedulingPolicy::kFair, "Fair"}};
  static const std::map<PreemptionMode, std::string> modes = {{PreemptionMode::kAuto, "Auto"},
                                                              {PreemptionMode::kRecompute, "Recompute"},
                                                              {PreemptionMode::kSwap, "Swap"}};
  return policies.at(setting.policy) + modes.at(setting.mode);
}

// Short and long, sampled and greedy requests, with one or several samples, of three clients and five
// priorities. Half of them start with one of two common prefixes.
Request make_request(int i, const ModelInfo& model, SchedulingPolicy policy) {
  Request request;
  const auto number = static_cast<uint64_t>(i);
  const auto length = 4 + static_cast<int>(mix64(number + 5) % 40);
  if (i % 2 == 0) request.prompt_token_ids = test::random_prompt(1000 + number % 4, 24, model.vocab_size);
  for (const TokenId id : test::random_prompt(number, length, model.vocab_size))
    request.prompt_token_ids.push_back(id);
  SamplingParams& s = request.sampling.edit();
  s.max_tokens = 5 + static_cast<int>(mix64(number) % 40);
  s.ignore_eos = true;
  s.logprobs = 1;
  s.seed = i;
  s.temperature = i % 3 == 0 ? 0.0F : 1.0F;
  if (i % 3 == 1) s.n = 1 + i % 4;
  if (i % 7 == 2) s.repetition_penalty = 1.3F;
  request.client = std::string(1, static_cast<char>('a' + i % 3));
  if (policy == SchedulingPolicy::kPriority) request.priority = i % 5 - 2;
  return request;
}

int64_t tokens_of(const Request& request) {
  const SamplingParams& s = *request.sampling;
  return static_cast<int64_t>(request.prompt_token_ids.size()) + int64_t{s.n} * s.max_tokens;
}

EngineConfig config_of(const ShortageSetting& setting, int64_t kv_memory) {
  EngineConfig config;
  config.model = test::model_path("llama");
  config.kv_cache_memory = kv_memory;
  config.scheduling_policy = setting.policy;
  config.preemption_mode = setting.mode;
  config.swap_space = setting.mode == PreemptionMode::kRecompute ? 0 : 2 * kv_memory;
  config.long_prefill_token_threshold = 32;
  config.threads = 2;
  config.generation_config = "none";
  return config;
}

class Shortage : public testing::TestWithParam<ShortageSetting> {};

TEST_P(Shortage, KeepsEveryOutput) {
  const ShortageSetting setting = GetParam();
  std::vector<Answer> alone;
  int64_t offered_tokens = 0;
  int64_t bytes_per_token = 0;
  {
    const auto engine = Engine::start(config_of({}, int64_t{64} << 20));
    bytes_per_token = engine->model().kv_bytes_per_token;
    for (int i = 0; i < kNumShortRequests; ++i) {
      Request request = make_request(i, engine->model(), SchedulingPolicy::kFcfs);
      offered_tokens += tokens_of(request);
      alone.push_back(test::ask(*engine, std::move(request)));
    }
  }
  const auto engine = Engine::start(config_of(setting, offered_tokens / kLoadOverMemory * bytes_per_token));
  std::vector<Pending> pending(kNumShortRequests);
  for (int i = 0; i < kNumShortRequests; ++i) {
    const auto id = engine->submit(make_request(i, engine->model(), setting.policy),
                                   pending[static_cast<size_t>(i)].sink());
    ASSERT_TRUE(id.ok()) << id.failure().message;
  }
  for (int i = 0; i < kNumShortRequests; ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    test::expect_same(alone[static_cast<size_t>(i)], pending[static_cast<size_t>(i)].wait());
  }
  engine->check_integrity();
  const EngineStats stats = engine->stats();
  EXPECT_GT(stats.num_preemptions, 0) << "no request was preempted, so the test is not meaningful";
  if (setting.mode == PreemptionMode::kRecompute) {
    EXPECT_EQ(stats.num_swapped_out_blocks, 0);
  }
  if (setting.mode == PreemptionMode::kSwap) {
    EXPECT_GT(stats.num_swapped_out_blocks, 0);
  }
  // A finished request may leave swapped-out blocks; no block is swapped in that was not swapped out.
  EXPECT_LE(stats.num_swapped_in_blocks, stats.num_swapped_out_blocks);
}

std::vector<ShortageSetting> settings() {
  std::vector<ShortageSetting> all;
  for (const auto policy : {SchedulingPolicy::kFcfs, SchedulingPolicy::kPriority, SchedulingPolicy::kMlfq,
                            SchedulingPolicy::kFair}) {
    for (const auto mode : {PreemptionMode::kRecompute, PreemptionMode::kSwap, PreemptionMode::kAuto})
      all.push_back({policy, mode});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Policies, Shortage, testing::ValuesIn(settings()),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace quire
