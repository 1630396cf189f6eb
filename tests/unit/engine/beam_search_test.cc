// Beam search through the engine: compared with transformers, and bitwise independent of other requests.
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "support/eventually.h"
#include "unit/engine/engine_testing.h"

namespace quire {
namespace {

using test::Answer;
using test::Pending;

constexpr int kNumBeamRequests = 16;

struct BeamSetting {
  int32_t chunk = 0;
  int32_t threads = 1;
  int64_t kv_memory = int64_t{64} << 20;
  bool prefix_caching = false;
};

EngineConfig config_of(const std::string& model, const BeamSetting& setting) {
  EngineConfig config;
  config.model = test::model_path(model);
  config.dtype = "float32";
  config.long_prefill_token_threshold = setting.chunk;
  config.threads = setting.threads;
  config.kv_cache_memory = setting.kv_memory;
  config.enable_prefix_caching = setting.prefix_caching;
  config.generation_config = "none";
  return config;
}

// Beam searches with various parameters, mixed with sampled requests.
Request make_beam_request(int i, const ModelInfo& model) {
  Request request;
  const int longest = model.max_model_len / 2;
  const int length =
      1 + static_cast<int>(mix64(static_cast<uint64_t>(i) + 99) % static_cast<uint64_t>(longest));
  request.prompt_token_ids = test::random_prompt(static_cast<uint64_t>(i) + 7, length, model.vocab_size);
  SamplingParams& s = request.sampling.edit();
  s.max_tokens = 6 + 3 * (i % 9);
  s.seed = 50 + i;
  if (i % 5 == 4) {
    s.n = 2;
    return request;
  }
  s.use_beam_search = true;
  s.n = 1 + i % 4;
  s.beam_width = s.n + i % 3;
  s.length_penalty = std::vector<float>{0.0F, 1.0F, 2.0F, -0.5F}[static_cast<size_t>(i % 4)];
  s.early_stopping =
      std::vector{EarlyStopping::kNo, EarlyStopping::kYes, EarlyStopping::kNever}[static_cast<size_t>(i % 3)];
  if (i % 2 == 0) s.stop_token_ids = {3, 17, 40, 41, 60};
  if (i % 4 == 1) s.logprobs = 2;
  if (i % 6 == 3) s.prompt_logprobs = 1;
  return request;
}

std::vector<Answer> beam_answers_alone(const std::string& model) {
  const auto engine = Engine::start(config_of(model, {}));
  std::vector<Answer> answers;
  for (int i = 0; i < kNumBeamRequests; ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    answers.push_back(test::ask(*engine, make_beam_request(i, engine->model())));
    const SamplingParams s = *make_beam_request(i, engine->model()).sampling;
    EXPECT_EQ(answers.back().samples.size(), static_cast<size_t>(s.n));
    for (const auto& sample : answers.back().samples) {
      EXPECT_FALSE(sample.tokens.empty());
      EXPECT_EQ(sample.logprobs.size(), s.logprobs ? sample.tokens.size() : 0U);
    }
  }
  engine->check_integrity();
  return answers;
}

void expect_together(Engine& engine, const std::vector<Answer>& expected) {
  std::vector<Pending> pending(kNumBeamRequests);
  for (int i = 0; i < kNumBeamRequests; ++i)
    ASSERT_TRUE(
        engine.submit(make_beam_request(i, engine.model()), pending[static_cast<size_t>(i)].sink()).ok());
  for (size_t i = 0; i < pending.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    test::expect_same(expected[i], pending[i].wait());
  }
  engine.check_integrity();
}

class BeamInvariance : public testing::TestWithParam<std::string> {
 protected:
  std::vector<Answer> expected_ = beam_answers_alone(GetParam());
};

TEST_P(BeamInvariance, IsIndependentOfBatchChunkingAndThreads) {
  for (const BeamSetting& setting : {BeamSetting{}, BeamSetting{.chunk = 1},
                                     BeamSetting{.chunk = 7, .threads = 2}, BeamSetting{.chunk = 16}}) {
    SCOPED_TRACE("chunk " + std::to_string(setting.chunk));
    expect_together(*Engine::start(config_of(GetParam(), setting)), expected_);
  }
}

TEST_P(BeamInvariance, IsUnchangedAfterPrefixHits) {
  const auto engine = Engine::start(config_of(GetParam(), {.prefix_caching = true}));
  expect_together(*engine, expected_);
  expect_together(*engine, expected_);
}

TEST_P(BeamInvariance, IsUnchangedAfterPreemption) {
  const ModelInfo model = Engine::start(config_of(GetParam(), {}))->model();
  // Blocks for little more than the widest search at its full length.
  const int64_t memory = model.kv_bytes_per_token * (2 * model.max_model_len + 12 * model.block_size);
  for (const bool prefix_caching : {false, true}) {
    const auto engine = Engine::start(
        config_of(GetParam(), {.chunk = 48, .kv_memory = memory, .prefix_caching = prefix_caching}));
    expect_together(*engine, expected_);
    EXPECT_GT(engine->stats().num_preemptions, 0) << "nothing was preempted, the test shows nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BeamInvariance, testing::Values("llama", "gpt2", "qwen3"),
                         [](const auto& test) { return test.param; });

TEST(BeamEngine, MatchesTransformers) {
  std::ifstream in(std::string(QUIRE_SOURCE_DIR) + "/tests/golden/beam.json");
  const auto golden = nlohmann::json::parse(in);
  std::map<std::string, std::unique_ptr<Engine>> engines;
  for (const auto& item : golden["cases"]) {
    const std::string name = item["model"];
    // With min_tokens the engine also masks the model's end tokens, which these cases replace.
    if (item.contains("min_tokens") && name != "quire-tiny") continue;
    auto& engine = engines[name];
    if (engine == nullptr) engine = Engine::start(config_of(name, {.prefix_caching = true}));
    Request request;
    request.prompt_token_ids = item["prompt"].get<std::vector<TokenId>>();
    SamplingParams& p = request.sampling.edit();
    p.use_beam_search = p.ignore_eos = true;
    p.beam_width = item["width"];
    p.n = item["n"];
    p.max_tokens = item["max_tokens"];
    p.length_penalty = item["length_penalty"];
    const auto& early = item["early_stopping"];
    p.early_stopping = early.is_string()   ? EarlyStopping::kNever
                       : early.get<bool>() ? EarlyStopping::kYes
                                           : EarlyStopping::kNo;
    p.min_tokens = item.value("min_tokens", 0);
    p.allowed_token_ids = item.value("allowed_token_ids", std::vector<TokenId>{});
    p.logit_bias = item.value("logit_bias", std::vector<std::pair<TokenId, float>>{});
    p.stop_token_ids = item["end_token_ids"].get<std::vector<TokenId>>();
    const Answer answer = test::ask(*engine, request);
    SCOPED_TRACE(item.dump());
    ASSERT_EQ(answer.samples.size(), item["outputs"].size());
    for (size_t i = 0; i < answer.samples.size(); ++i) {
      EXPECT_EQ(answer.samples[i].tokens, item["outputs"][i]["token_ids"].get<std::vector<TokenId>>());
      const bool stopped = item["outputs"][i]["stopped"];
      EXPECT_EQ(answer.samples[i].reason, stopped ? FinishReason::kStop : FinishReason::kLength);
    }
  }
  for (const auto& [name, engine] : engines) engine->check_integrity();
}

TEST(BeamEngine, RejectsMoreBeamsThanMaxNumSeqs) {
  EngineConfig config = config_of("llama", {});
  config.max_num_seqs = 3;
  const auto engine = Engine::start(config);
  Request request;
  request.prompt_token_ids = {5, 6};
  request.sampling.edit().use_beam_search = true;
  request.sampling.edit().beam_width = 4;
  Pending pending;
  const auto refused = engine->submit(request, pending.sink());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().param, "best_of");
  request.sampling.edit().beam_width = 3;
  EXPECT_EQ(test::ask(*engine, request).samples.size(), 1U);
}

TEST(BeamEngine, MayReturnFewerHypothesesThanRequested) {
  const auto engine = Engine::start(config_of("llama", {}));
  Request request;
  request.prompt_token_ids = {5, 6};
  request.sampling.edit().use_beam_search = true;
  request.sampling.edit().n = 3;
  request.sampling.edit().allowed_token_ids = {7};
  request.sampling.edit().max_tokens = 4;
  const Answer answer = test::ask(*engine, request);
  ASSERT_EQ(answer.samples.size(), 1U);
  EXPECT_EQ(answer.samples[0].tokens, (std::vector<TokenId>{7, 7, 7, 7}));
  engine->check_integrity();
}

// Eight copies of the prompt would not fit; its full blocks exist once.
TEST(BeamEngine, SharesThePromptsBlocksBetweenBeams) {
  Request request;
  request.sampling.edit().use_beam_search = request.sampling.edit().ignore_eos = true;
  request.sampling.edit().n = 8;
  request.sampling.edit().max_tokens = 20;
  EngineConfig config = config_of("quire-tiny", {});
  const auto roomy = Engine::start(config);
  const ModelInfo model = roomy->model();
  request.prompt_token_ids = test::random_prompt(5, 900, model.vocab_size);
  const Answer expected = test::ask(*roomy, request);
  config.kv_cache_memory = model.kv_bytes_per_token * (model.max_model_len + 8 * 3 * model.block_size);
  const auto tight = Engine::start(config);
  test::expect_same(expected, test::ask(*tight, request));
  EXPECT_EQ(tight->stats().num_preemptions, 0);
  tight->check_integrity();
}

TEST(BeamEngine, FreesAllBeamsOnAbort) {
  const auto engine = Engine::start(config_of("quire-tiny", {}));
  Request request;
  request.prompt_token_ids = {5, 6, 7};
  request.sampling.edit().use_beam_search = request.sampling.edit().ignore_eos = true;
  request.sampling.edit().n = 8;
  request.sampling.edit().max_tokens = 900;
  Pending pending;
  const auto id = engine->submit(request, pending.sink());
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(test::eventually([&] { return engine->stats().num_running == 8; }));
  engine->abort(*id);
  EXPECT_EQ(pending.wait().samples.size(), 8U);
  engine->check_integrity();
}

}  // namespace
}  // namespace quire
