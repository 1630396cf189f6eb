// Batch invariance: tokens and log-probabilities of a request are bitwise the same alone, in any batch, with
// any chunking, after a prefix cache hit, after preemption, with any number of threads, on every instruction
// set.
#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <thread>

#include "engine/build_info.h"
#include "support/sanitizers.h"
#include "unit/engine/engine_testing.h"

namespace quire {
namespace {

using test::Answer;
using test::Pending;

constexpr int kNumRequests = 32;

struct Case {
  std::string model;
  std::string kv_cache_dtype = "auto";
  std::string quantization = "auto";
  int32_t block_size =
      16;  // small for models whose windows free blocks or whose states have checkpoints every 16 blocks
};

std::string test_name(const Case& c) {
  std::string name = c.kv_cache_dtype == "auto" ? c.model : c.model + "_" + c.kv_cache_dtype;
  if (c.quantization != "auto") name += "_weights_" + c.quantization;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

struct Setting {
  const char* name;
  int32_t chunk = 0;  // maximum tokens per sequence and step; 0 = no limit
  int32_t threads = 1;
  int64_t kv_memory = 0;  // a small value forces preemption
  bool prefix_caching = false;
};

EngineConfig config_of(const Case& tested, const Setting& setting) {
  EngineConfig config;
  config.model = test::model_path(tested.model);
  config.kv_cache_dtype = tested.kv_cache_dtype;
  config.quantization = tested.quantization;
  config.block_size = tested.block_size;
  // Sanitizers would take minutes for the 1,024 tokens of quire-tiny. Quantized weights depend on the tokens
  // of a step, not on the length of a sequence.
  const bool is_long = tested.model == "quire-tiny";
  if (is_long && tested.quantization != "auto") config.max_model_len = 256;
  if (tested.block_size < 16 || (is_long && test::kSanitizer)) config.max_model_len = 128;
  config.long_prefill_token_threshold = setting.chunk;
  config.threads = setting.threads;
  config.kv_cache_memory = setting.kv_memory > 0 ? setting.kv_memory : int64_t{64} << 20;
  config.enable_prefix_caching = setting.prefix_caching;
  config.generation_config = "none";
  return config;
}

// Greedy and sampled, short and long requests, with penalties, several samples, prompt log-probabilities, and
// samplers that remember earlier tokens.
Request make_request(int i, const ModelInfo& model) {
  Request request;
  const int longest = model.max_model_len / 2;
  const int length =
      1 + static_cast<int>(mix64(static_cast<uint64_t>(i) + 17) % static_cast<uint64_t>(longest));
  request.prompt_token_ids = test::random_prompt(static_cast<uint64_t>(i), length, model.vocab_size);
  SamplingParams& s = request.sampling.edit();
  s.max_tokens = 8 + i % 13;
  s.ignore_eos = true;
  s.logprobs = i % 4;
  s.seed = 1000 + i;
  s.temperature = i % 3 == 0 ? 0.0F : 0.9F;
  if (i % 5 == 0) s.repetition_penalty = 1.2F;
  if (i % 5 == 1) s.top_p = 0.8F;
  if (i % 5 == 2) s.top_k = 7;
  if (i % 7 == 1 && s.temperature > 0.0F) s.n = 3;
  if (i % 11 == 3) s.prompt_logprobs = 2;
  if (i % 8 == 1) s.mirostat_mode = 2;
  if (i % 8 == 3) s.xtc_probability = 0.5F, s.xtc_threshold = 0.001F;
  if (i % 8 == 6) s.dry_multiplier = 0.8F, s.dry_allowed_length = 1;
  return request;
}

std::vector<Answer> answers_alone(const Case& tested) {
  const auto engine = Engine::start(config_of(tested, {.name = "alone"}));
  std::vector<Answer> answers;
  for (int i = 0; i < kNumRequests; ++i)
    answers.push_back(test::ask(*engine, make_request(i, engine->model())));
  engine->check_integrity();
  return answers;
}

// Runs all requests in one engine, arriving at various times or at once.
std::vector<Answer> answers_together(Engine& engine, uint64_t seed, bool at_once = false) {
  std::vector<Pending> pending(kNumRequests);
  for (int k = 0; k < kNumRequests; ++k) {
    const int i =
        static_cast<int>((static_cast<uint64_t>(k) * 7 + seed) % kNumRequests);  // 7 and 32 are coprime
    const auto id = engine.submit(make_request(i, engine.model()), pending[static_cast<size_t>(i)].sink());
    EXPECT_TRUE(id.ok());
    if (!at_once)
      std::this_thread::sleep_for(std::chrono::microseconds(mix64(seed + static_cast<uint64_t>(k)) % 3000));
  }
  std::vector<Answer> answers;
  for (auto& p : pending) answers.push_back(p.wait());
  engine.check_integrity();
  return answers;
}

void expect_all_same(const std::vector<Answer>& expected, const std::vector<Answer>& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    test::expect_same(expected[i], actual[i]);
  }
}

class Invariance : public testing::TestWithParam<Case> {
 protected:
  std::vector<Answer> expected_ = answers_alone(GetParam());
};

TEST_P(Invariance, IsIndependentOfBatchChunkingAndThreads) {
  const std::array<Setting, 5> settings = {{{.name = "7", .chunk = 7, .threads = 2},
                                            {.name = "1", .chunk = 1},
                                            {.name = "unchunked"},
                                            {.name = "16", .chunk = 16},
                                            {.name = "512", .chunk = 512, .threads = 2}}};
  for (const Setting& setting : std::span(settings).first(test::repetitions(5, 2))) {
    SCOPED_TRACE(setting.name);
    const auto engine = Engine::start(config_of(GetParam(), setting));
    expect_all_same(expected_, answers_together(*engine, static_cast<uint64_t>(setting.chunk)));
  }
}

TEST_P(Invariance, IsUnchangedAfterPrefixHits) {
  const auto engine = Engine::start(config_of(GetParam(), {.name = "prefix", .prefix_caching = true}));
  expect_all_same(expected_, answers_together(*engine, 1));
  const std::vector<Answer> again = answers_together(*engine, 2);
  expect_all_same(expected_, again);
  int32_t cached = 0;
  for (const auto& answer : again) cached += answer.num_cached_tokens;
  EXPECT_GT(cached, 0) << "no prompt was found in the cache, the test shows nothing";
}

TEST_P(Invariance, IsUnchangedAfterPreemption) {
  const auto probe = Engine::start(config_of(GetParam(), {.name = "probe"}));
  // Blocks for one sequence of full length, so that most of the requests are preempted.
  const ModelInfo& model = probe->model();
  const int64_t memory = model.kv_bytes_per_sequence + model.kv_bytes_per_token * model.block_size;
  struct Way {
    bool prefix_caching;
    int64_t swap_space;
  };
  for (const Way& way : {Way{false, 0}, Way{true, 0}, Way{false, 4 * memory}}) {
    EngineConfig config = config_of(
        GetParam(),
        {.name = "preempt", .chunk = 48, .kv_memory = memory, .prefix_caching = way.prefix_caching});
    config.swap_space = way.swap_space;
    if (way.swap_space > 0) config.preemption_mode = PreemptionMode::kSwap;
    const auto engine = Engine::start(config);
    expect_all_same(expected_, answers_together(*engine, 3, true));
    EXPECT_GT(engine->stats().num_preemptions, 0) << "nothing was preempted, the test shows nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, Invariance,
    testing::Values(Case{"llama"}, Case{"mistral-bfloat16"}, Case{"gpt2-float16"}, Case{"qwen3"},
                    Case{"quire-tiny"}, Case{"llama", "fp8_e4m3"}, Case{"mistral-bfloat16", "fp8_e5m2"},
                    Case{"quire-tiny", "int8"}, Case{"quire-tiny", "auto", "int8"},
                    Case{"llama", "auto", "w8a8"}, Case{"quire-tiny", "auto", "int4"},
                    Case{"mamba2", "auto", "auto", 2}, Case{"qwen3_next", "auto", "auto", 2},
                    Case{"qwen3_5-bfloat16", "int8", "auto", 2}, Case{"nemotron_h", "auto", "int8", 1},
                    Case{"falcon_h1", "auto", "auto", 2}, Case{"lfm2", "auto", "auto", 2},
                    Case{"deepseek_v32"}, Case{"glm_moe_dsa", "int8"}, Case{"minimax_m3"},
                    Case{"zamba2", "auto", "auto", 2}, Case{"mimo_v2_flash", "int8", "auto", 4},
                    Case{"gemma2", "auto", "auto", 4}, Case{"gemma3", "auto", "auto", 4},
                    Case{"gemma3n", "auto", "auto", 4}, Case{"gemma4", "auto", "auto", 4},
                    Case{"gpt_oss", "int8", "auto", 4}, Case{"llama4", "auto", "auto", 4},
                    Case{"mistral", "auto", "auto", 4}, Case{"phi3", "fp8_e4m3", "auto", 4},
                    Case{"cohere2", "bfloat16", "auto", 4}, Case{"exaone4", "auto", "auto", 4},
                    Case{"olmo3", "auto", "auto", 4}, Case{"modernbert-decoder", "auto", "auto", 4},
                    Case{"lfm3", "auto", "auto", 2}, Case{"gemma3", "float16", "auto", 16},
                    Case{"kimi_linear", "auto", "auto", 2}, Case{"deepseek_v4", "auto", "auto", 2},
                    Case{"deepseek_v4-saved", "int8", "auto", 2}),
    [](const auto& test) { return test_name(test.param); });

// All instruction sets in one process: the instruction set is selected when an engine starts.
TEST(InvarianceOfInstructionSets, EachProcessReproducesItsOutputs) {
  for (const auto& isa : build_info().isas) {
    SCOPED_TRACE(isa);
    setenv("QUIRE_CPU_ISA", isa.c_str(), 1);
    try {
      build_info();
    } catch (const Error&) {
      continue;  // this machine cannot run it
    }
    for (const Case& tested :
         {Case{"llama-bfloat16"}, Case{"llama-bfloat16", "int8"}, Case{"llama-bfloat16", "auto", "int4"},
          Case{"qwen3_5-bfloat16", "auto", "auto", 2}, Case{"mamba2", "auto", "auto", 2}}) {
      SCOPED_TRACE(test_name(tested));
      const std::vector<Answer> alone = answers_alone(tested);
      const auto engine = Engine::start(config_of(tested, {.name = "company", .chunk = 7, .threads = 2}));
      EXPECT_EQ(engine->model().isa, isa);
      expect_all_same(alone, answers_together(*engine, 5));
    }
  }
  unsetenv("QUIRE_CPU_ISA");
}

}  // namespace
}  // namespace quire
