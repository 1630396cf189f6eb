// LoRA adapters in an engine: the outputs of PEFT in any batch; cached prefixes are kept apart.
#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/json_file.h"
#include "unit/engine/engine_testing.h"
#include "unit/engine/lora_testing.h"

namespace quire {
namespace {

using test::adapter_path;
using test::Answer;
using test::config_with_adapters;
using test::kAdapter;
using test::kLoraModel;
using test::lora_config;
using test::Pending;
using test::tokens_with;
using testing::HasSubstr;

nlohmann::json golden_of(const std::string& adapter) {
  return read_json_file(adapter_path(adapter) / "golden.json");
}

// The golden adapters of each model.
const std::map<std::string, std::vector<std::string>>& adapters_by_model() {
  static const auto all = test::golden_adapters("lora");
  return all;
}

std::vector<std::string> models_with_adapters() {
  std::vector<std::string> names;
  for (const auto& [model, adapters] : adapters_by_model()) names.push_back(model);
  return names;
}

Request greedy_request(const nlohmann::json& golden, const std::string& adapter) {
  Request request;
  request.prompt_token_ids = golden["prompt"].get<std::vector<TokenId>>();
  request.adapter_name = adapter;
  SamplingParams& sampling = request.sampling.edit();
  sampling.temperature = 0.0F;
  sampling.max_tokens = static_cast<int32_t>(golden["greedy"].size());
  sampling.ignore_eos = true;
  sampling.logprobs = 0;
  sampling.prompt_logprobs = 0;
  return request;
}

// A request for each case of each adapter, and of the base model.
struct Asked {
  std::string adapter;  // empty = the base model
  nlohmann::json golden;
};
std::vector<Asked> all_cases(const std::string& model) {
  std::vector<Asked> asked;
  const auto add = [&](const std::string& adapter, const nlohmann::json& golden) {
    for (const auto& one : golden["cases"]) asked.push_back({adapter, one});
  };
  for (const std::string& adapter : adapters_by_model().at(model)) add(adapter, golden_of(adapter));
  add("", read_json_file(test::golden_checkpoint("models/" + model) / "golden.json"));
  return asked;
}

std::vector<Answer> ask_for_all(Engine& engine, const std::vector<Asked>& asked) {
  std::vector<Pending> pending(asked.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    const auto id = engine.submit(greedy_request(asked[i].golden, asked[i].adapter), pending[i].sink());
    if (!id.ok()) ADD_FAILURE() << asked[i].adapter << ": " << id.failure().message;
  }
  std::vector<Answer> answers;
  for (Pending& one : pending) answers.push_back(one.wait());
  return answers;
}

void expect_golden(const Answer& answer, const Asked& asked) {
  SCOPED_TRACE(asked.adapter.empty() ? "the base model" : asked.adapter);
  ASSERT_EQ(answer.samples.size(), 1U);
  EXPECT_EQ(answer.samples[0].tokens, asked.golden["greedy"].get<std::vector<TokenId>>());
  const auto expected = asked.golden["logprobs"].get<std::vector<double>>();
  ASSERT_EQ(answer.prompt_logprobs.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(answer.prompt_logprobs[i].chosen.logprob, expected[i], 1e-4 - 2e-5 * expected[i])
        << "position " << i + 1;
}

class LoraGoldens : public testing::TestWithParam<std::string> {};

TEST_P(LoraGoldens, AllAdaptersInOneBatchGiveTheOutputsOfPeft) {
  const auto engine = Engine::start(config_with_adapters(GetParam(), adapters_by_model().at(GetParam())));
  const std::vector<Asked> asked = all_cases(GetParam());
  ASSERT_GE(asked.size(), 2 * adapters_by_model().at(GetParam()).size() + 3);
  const std::vector<Answer> answers = ask_for_all(*engine, asked);
  for (size_t i = 0; i < asked.size(); ++i) expect_golden(answers[i], asked[i]);
}

// Every bit of a request is that of the request alone, in any chunks; rows of the base model have the bits of
// an engine without adapters.
TEST_P(LoraGoldens, ARequestHasTheSameBitsInAnyBatch) {
  const std::vector<Asked> asked = all_cases(GetParam());
  EngineConfig config = config_with_adapters(GetParam(), adapters_by_model().at(GetParam()));
  config.enable_prefix_caching = false;
  const auto together = ask_for_all(*Engine::start(config), asked);
  config.long_prefill_token_threshold = 3;
  config.threads = 2;
  const auto other = Engine::start(config);
  EngineConfig base_config = lora_config(GetParam());
  base_config.enable_prefix_caching = false;
  const auto base = Engine::start(base_config);
  for (size_t i = 0; i < asked.size(); ++i) {
    SCOPED_TRACE(asked[i].adapter);
    const Request request = greedy_request(asked[i].golden, asked[i].adapter);
    const Answer alone = test::ask(asked[i].adapter.empty() ? *base : *other, request);
    EXPECT_EQ(alone.samples[0].tokens, together[i].samples[0].tokens);
    test::expect_same_logprobs(alone.samples[0].logprobs, together[i].samples[0].logprobs);
    test::expect_same_logprobs(alone.prompt_logprobs, together[i].prompt_logprobs);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LoraGoldens, testing::ValuesIn(models_with_adapters()), [](const auto& test) {
  std::string name = test.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(Lora, CachedPrefixesAreKeptApart) {
  EngineConfig config = config_with_adapters(kLoraModel, {kAdapter, "qwen3-rslora"});
  config.lora_modules.push_back({"copy", adapter_path(kAdapter).string()});
  const auto engine = Engine::start(config);
  const std::vector<TokenId> prompt = test::random_prompt(5, 40, engine->model().vocab_size);
  int32_t cached = 0;
  const auto own = tokens_with(*engine, prompt, kAdapter, &cached);
  EXPECT_EQ(cached, 0);
  const auto base = tokens_with(*engine, prompt, "", &cached);
  EXPECT_EQ(cached, 0);
  EXPECT_NE(own, base);
  EXPECT_NE(tokens_with(*engine, prompt, "qwen3-rslora", &cached), own);
  EXPECT_EQ(cached, 0);
  EXPECT_EQ(tokens_with(*engine, prompt, kAdapter, &cached), own);
  EXPECT_EQ(cached, 32);
  // The content of an adapter counts, not its name.
  EXPECT_EQ(tokens_with(*engine, prompt, "copy", &cached), own);
  EXPECT_EQ(cached, 32);
}

TEST(Lora, SamplesAndPreemptedRequestsKeepTheirAdapter) {
  const EngineConfig config = config_with_adapters(kLoraModel, {kAdapter});
  const auto run = [](const EngineConfig& tested) {
    const auto engine = Engine::start(tested);
    std::vector<Pending> pending(8);
    for (size_t i = 0; i < pending.size(); ++i) {
      Request request;
      request.prompt_token_ids = test::random_prompt(i, 20, engine->model().vocab_size);
      request.adapter_name = i % 2 == 0 ? kAdapter : "";
      SamplingParams& sampling = request.sampling.edit();
      sampling.n = 2;
      sampling.seed = 3;
      sampling.max_tokens = 30;
      sampling.ignore_eos = true;
      EXPECT_TRUE(engine->submit(std::move(request), pending[i].sink()).ok());
    }
    std::vector<std::vector<TokenId>> tokens;
    for (Pending& one : pending) {
      for (const Answer::Sample& sample : one.wait().samples) tokens.push_back(sample.tokens);
    }
    return std::pair(tokens, engine->stats().num_preemptions);
  };
  EngineConfig small = config;
  small.kv_cache_memory = Engine::start(config)->model().kv_bytes_per_token * 8 * 40;
  const auto [expected, none] = run(config);
  const auto [tokens, preemptions] = run(small);
  EXPECT_EQ(none, 0);
  EXPECT_GT(preemptions, 0);
  EXPECT_EQ(tokens, expected);
}

TEST(Lora, UnknownNamesAreNotFound) {
  const auto engine = Engine::start(config_with_adapters(kLoraModel, {kAdapter}));
  Request request;
  request.prompt_token_ids = {1, 2};
  request.adapter_name = "other";
  Pending pending;
  const auto refused = engine->submit(request, pending.sink());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().kind, ErrorKind::kNotFound);
  EXPECT_THAT(refused.failure().message, HasSubstr("qwen3-attention"));
}

std::string lora_start_error(const EngineConfig& config) {
  try {
    Engine::start(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Lora, AnEngineDoesNotStartWithAnAdapterThatCannotBeApplied) {
  EngineConfig missing = lora_config(kLoraModel);
  missing.lora_modules = {{"sql", "/no/such/adapter"}};
  EXPECT_THAT(lora_start_error(missing), HasSubstr("/no/such/adapter"));
  EngineConfig other = lora_config(kLoraModel);
  other.lora_modules = {{"sql", adapter_path("gpt2-transposed").string()}};
  EXPECT_THAT(lora_start_error(other), HasSubstr("c_attn"));
  EngineConfig twice = lora_config(kLoraModel);
  twice.lora_modules = {{"a", adapter_path(kAdapter).string()}, {"a", adapter_path(kAdapter).string()}};
  EXPECT_THAT(lora_start_error(twice), HasSubstr("already an adapter 'a'"));
  EngineConfig base = lora_config(kLoraModel);
  base.lora_modules = {{kLoraModel, adapter_path(kAdapter).string()}};
  EXPECT_THAT(lora_start_error(base), HasSubstr("the name of the base model"));
  EngineConfig rank = config_with_adapters(kLoraModel, {kAdapter});
  rank.max_lora_rank = 3;
  EXPECT_THAT(lora_start_error(rank), HasSubstr("rank"));
}

TEST(Lora, IsLoadedReplacedAndUnloadedWhileRequestsRun) {
  EngineConfig config = lora_config(kLoraModel);
  config.enable_lora = true;
  const auto engine = Engine::start(config);
  const std::vector<TokenId> prompt = test::random_prompt(7, 12, engine->model().vocab_size);
  const auto base = tokens_with(*engine, prompt, "");
  ASSERT_TRUE(engine->load_adapter({"own", adapter_path(kAdapter).string()}).ok());
  const auto first = tokens_with(*engine, prompt, "own");
  EXPECT_NE(first, base);
  const Status taken = engine->load_adapter({"own", adapter_path("qwen3-rslora").string()});
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.failure().kind, ErrorKind::kInvalidArgument);

  // A request keeps the version that it started with.
  Request request;
  request.prompt_token_ids = prompt;
  request.adapter_name = "own";
  request.sampling.edit().max_tokens = 60;
  request.sampling.edit().temperature = 0.0F;
  request.sampling.edit().ignore_eos = true;
  const auto whole = test::ask(*engine, request).samples.at(0).tokens;
  Pending running;
  ASSERT_TRUE(engine->submit(request, running.sink()).ok());
  ASSERT_TRUE(engine->load_adapter({"own", adapter_path("qwen3-rslora").string()}, true).ok());
  const auto second = tokens_with(*engine, prompt, "own");
  EXPECT_NE(second, first);
  ASSERT_TRUE(engine->unload_adapter("own").ok());
  EXPECT_EQ(running.wait().samples.at(0).tokens, whole);

  EXPECT_TRUE(engine->adapters().empty());
  EXPECT_FALSE(engine->unload_adapter("own").ok());
  Pending refused;
  EXPECT_FALSE(engine->submit(request, refused.sink()).ok());
  EXPECT_EQ(tokens_with(*engine, prompt, ""), base);
}

TEST(Lora, AnEngineWithoutAdaptersLoadsNone) {
  const auto engine = Engine::start(lora_config(kLoraModel));
  const Status refused = engine->load_adapter({"own", adapter_path(kAdapter).string()});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.failure().message, HasSubstr("--enable-lora"));
}

}  // namespace
}  // namespace quire
