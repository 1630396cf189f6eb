// Pooling models: compared with transformers, in any batch and chunking and on any instruction set; rejected
// requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <future>
#include <string>
#include <vector>

#include "base/error.h"
#include "exec/local_runtime.h"
#include "io/json_file.h"
#include "unit/engine/engine_testing.h"
#include "unit/io/io_test_util.h"
#include "unit/models/gguf_goldens.h"

namespace quire {
namespace {

using testing::HasSubstr;

std::filesystem::path pooling_model(const std::string& name) {
  return test::golden_checkpoint("pooling/" + name);
}

class PoolingIsa {
 public:
  explicit PoolingIsa(const std::string& name) { setenv("QUIRE_CPU_ISA", name.c_str(), 1); }
  ~PoolingIsa() { unsetenv("QUIRE_CPU_ISA"); }
};

// model: the name of a golden model, or the absolute path of another one.
std::unique_ptr<Engine> start(const std::string& model, EngineConfig config = {}) {
  config.model = std::filesystem::path(model).is_absolute() ? model : pooling_model(model).string();
  config.threads = config.threads == 0 ? 1 : config.threads;
  config.kv_cache_memory = int64_t{4} << 20;
  return Engine::start(config);
}

struct Text {
  std::vector<TokenId> ids;
  int32_t second_text = 0;
};

Request request_of(const Engine& engine, const Text& text, const PoolingParams& params = {}) {
  Request request;
  request.prompt_token_ids = text.ids;
  request.sampling.edit().max_tokens = 0;
  request.pooling = PoolingRequest{params, text.second_text, engine.model().pools_all_tokens};
  return request;
}

std::future<std::vector<float>> submit(Engine& engine, Request request) {
  auto promise = std::make_shared<std::promise<std::vector<float>>>();
  auto future = promise->get_future();
  const auto id = engine.submit(std::move(request), [promise](RequestOutput&& output) {
    EXPECT_FALSE(output.failure) << output.failure->message;
    EXPECT_TRUE(output.finished);
    promise->set_value(std::move(output.pooled));
  });
  EXPECT_TRUE(id.ok()) << (id.ok() ? "" : id.failure().message);
  if (!id.ok()) promise->set_value({});
  return future;
}

struct PoolingCase {
  Text text;
  std::vector<float> vector;
};
std::vector<PoolingCase> golden_cases(const std::string& model) {
  std::vector<PoolingCase> cases;
  const nlohmann::json golden = read_json_file(pooling_model(model) / "golden.json");
  for (const auto& item : golden["cases"]) {
    cases.push_back({{item["prompt"].get<std::vector<TokenId>>(), item["second_text"].get<int32_t>()},
                     item["vector"].get<std::vector<float>>()});
  }
  return cases;
}

double largest(const std::vector<float>& values) {
  double maximum = 0.0;
  for (const float v : values) maximum = std::max(maximum, std::abs(static_cast<double>(v)));
  return maximum;
}

// Test names may contain only letters, digits and underscores.
std::string pooling_test_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class PoolingGolden : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(PoolingGolden, MatchesTransformers) {
  const auto& [isa, model] = GetParam();
  const PoolingIsa forced(isa);
  const auto engine = start(model);
  // Larger on instruction sets that round activations to bfloat16.
  const double tolerance = model.ends_with("-bfloat16") ? (isa.ends_with("_bf16") ? 3e-2 : 2e-2) : 1e-5;
  for (const PoolingCase& item : golden_cases(model)) {
    const auto vector = submit(*engine, request_of(*engine, item.text)).get();
    ASSERT_EQ(vector.size(), item.vector.size());
    for (size_t i = 0; i < vector.size(); ++i)
      ASSERT_NEAR(vector[i], item.vector[i], tolerance * largest(item.vector) + 1e-7)
          << "number " << i << " of a text of " << item.text.ids.size();
  }
  engine->check_integrity();
}

INSTANTIATE_TEST_SUITE_P(All, PoolingGolden,
                         testing::Combine(testing::ValuesIn(usable_isas()),
                                          testing::ValuesIn(test::golden_names("pooling"))),
                         [](const auto& test) {
                           return pooling_test_name(std::get<0>(test.param) + "_" + std::get<1>(test.param));
                         });

TEST(PoolingWeightCache, ReturnsTheSameVectors) {
  const test::TempDir dir;
  for (const std::string& model : test::golden_names("pooling")) {
    const auto vectors = [&](const EngineConfig& config) {
      const auto engine = start(model, config);
      std::vector<std::vector<float>> all;
      for (const PoolingCase& item : golden_cases(model))
        all.push_back(submit(*engine, request_of(*engine, item.text)).get());
      return all;
    };
    const auto expected = vectors({});
    EXPECT_EQ(vectors({.weight_cache = dir.path()}), expected) << model;
    EXPECT_EQ(vectors({.weight_cache = dir.path()}), expected) << model;
  }
}

// Embeddings of other programs are normalized.
void normalize(std::vector<float>& values) {
  double sum = 0.0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  for (float& v : values) v = static_cast<float>(v / std::sqrt(sum));
}

class GgufPooling : public testing::TestWithParam<std::string> {};

TEST_P(GgufPooling, MatchesTransformers) {
  const nlohmann::json model = test::gguf_goldens("pooling")[GetParam()];
  const test::TempDir dir;
  dir.write("model.gguf", test::make_gguf(model, pooling_model(GetParam())));
  EngineConfig config;
  config.runner = "pooling";
  config.activation_dtype = "float32";
  const auto engine = start((dir.path() / "model.gguf").string(), config);
  constexpr int kRank = 4;  // pooling type of rerankers
  const bool pooled = std::ranges::any_of(model["metadata"], [](const nlohmann::json& entry) {
    return entry[0].get<std::string>().ends_with(".pooling_type") &&
           !entry[0].get<std::string>().ends_with("classifier.pooling_type") && entry[2] != kRank;
  });
  const double tolerance = GetParam().ends_with("-bfloat16") ? 3e-2 : 1e-5;
  for (PoolingCase item : golden_cases(GetParam())) {
    if (pooled) normalize(item.vector);
    const auto vector = submit(*engine, request_of(*engine, item.text)).get();
    ASSERT_EQ(vector.size(), item.vector.size());
    for (size_t i = 0; i < vector.size(); ++i)
      ASSERT_NEAR(vector[i], item.vector[i], tolerance * largest(item.vector) + 1e-7);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufPooling, testing::ValuesIn(test::gguf_golden_names("pooling")),
                         [](const auto& test) { return pooling_test_name(test.param); });

TEST(PoolingMetrics, RecordsLatenciesOfPoolingRequests) {
  const auto engine = start("bert");
  for (const PoolingCase& item : golden_cases("bert")) submit(*engine, request_of(*engine, item.text)).get();
  const std::string count = std::to_string(golden_cases("bert").size());
  const auto has = [&, page = engine->metrics().render()](const char* name, const std::string& value) {
    EXPECT_NE(
        page.find(std::string("quire:") + name + "_count{model_name=\"bert\",engine=\"0\"} " + value + "\n"),
        std::string::npos)
        << name << "\n"
        << page;
  };
  has("e2e_request_latency_seconds", count);
  has("request_prompt_tokens", count);
  has("time_to_first_token_seconds", "0");  // pooling requests generate no token
}

// Encoders, and decoders that pool the last token or all tokens.
class PoolingInvariance : public testing::TestWithParam<std::string> {};

TEST_P(PoolingInvariance, IsIndependentOfBatchAndChunking) {
  const auto alone = start(GetParam());
  std::vector<Text> texts;
  const int longest = std::min(60, alone->model().max_model_len);
  for (int i = 0; i < 40; ++i) {
    texts.push_back(
        {test::random_prompt(static_cast<uint64_t>(i), 1 + i * 7 % longest, alone->model().vocab_size)});
  }
  std::vector<std::vector<float>> expected;
  for (const Text& text : texts) expected.push_back(submit(*alone, request_of(*alone, text)).get());

  std::vector<EngineConfig> configs(4);
  configs[1].max_num_batched_tokens = 64;
  configs[1].threads = 2;
  configs[2].max_num_batched_tokens = 7;
  configs[2].max_num_seqs = 5;
  configs[2].block_size = 4;
  configs[3].long_prefill_token_threshold = 3;
  configs[3].scheduling_policy = SchedulingPolicy::kMlfq;
  for (const EngineConfig& config : configs) {
    const auto engine = start(GetParam(), config);
    for (int round = 0; round < 2; ++round) {  // the second round may hit the prefix cache
      std::vector<std::future<std::vector<float>>> answers;
      for (const Text& text : texts) answers.push_back(submit(*engine, request_of(*engine, text)));
      for (size_t i = 0; i < texts.size(); ++i)
        ASSERT_EQ(answers[i].get(), expected[i]) << "text of " << texts[i].ids.size() << " tokens";
    }
    engine->check_integrity();
  }
}

INSTANTIATE_TEST_SUITE_P(Some, PoolingInvariance,
                         testing::Values("bert", "bert-many", "modernbert", "gemma3-embedding",
                                         "qwen3-embedding", "qwen3-mean", "qwen3-reranker"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Pooling, UsesThePrefixCacheForLastTokenPoolingOnly) {
  const auto prompt = test::random_prompt(3, 60, 96);
  for (const bool last : {true, false}) {
    const auto engine = start(last ? "qwen3-embedding" : "qwen3-mean");
    EXPECT_EQ(engine->model().pools_all_tokens, !last);
    const auto first = submit(*engine, request_of(*engine, {prompt})).get();
    EXPECT_EQ(submit(*engine, request_of(*engine, {prompt})).get(), first);
    EXPECT_EQ(engine->stats().prefix_cache_hits > 0, last);
  }
}

TEST(Pooling, AppliesDimensionsAndNormalization) {
  const auto engine = start("bert");
  const auto text = golden_cases("bert").back().text;
  const auto whole = submit(*engine, request_of(*engine, text)).get();
  const auto part = submit(*engine, request_of(*engine, text, {.dimensions = 5})).get();
  ASSERT_EQ(part.size(), 5U);
  double sum = 0.0;
  for (size_t i = 0; i < 5; ++i) {
    sum += static_cast<double>(part[i]) * part[i];
    EXPECT_NEAR(part[i] / part[0], whole[i] / whole[0], 1e-5);
  }
  EXPECT_NEAR(sum, 1.0, 1e-6);
  const auto raw = submit(*engine, request_of(*engine, text, {.normalize = false})).get();
  EXPECT_GT(std::abs(raw[0] / whole[0]), 1.001);
}

TEST(Pooling, ReturnsScoresWithoutActivation) {
  const auto engine = start("bert-reranker");
  const auto text = golden_cases("bert-reranker").back().text;
  const float score = submit(*engine, request_of(*engine, text)).get()[0];
  const float logit = submit(*engine, request_of(*engine, text, {.activation = false})).get()[0];
  EXPECT_NEAR(score, 1.0 / (1.0 + std::exp(-logit)), 1e-6);
  // The second text of a pair has its own token type.
  const float joined = submit(*engine, request_of(*engine, {text.ids})).get()[0];
  EXPECT_NE(joined, score);
}

std::string refusal(Engine& engine, Request request) {
  const auto id = engine.submit(std::move(request), [](RequestOutput&&) { ADD_FAILURE() << "accepted"; });
  return id.ok() ? "" : id.failure().message;
}

TEST(Pooling, RejectsTasksOfOtherModels) {
  const auto embedder = start("bert");
  Request generate;
  generate.prompt_token_ids = {5, 6};
  EXPECT_THAT(refusal(*embedder, generate), HasSubstr("returns embeddings and does not generate text"));
  EXPECT_THAT(refusal(*embedder, request_of(*embedder, {std::vector<TokenId>(65, 7)})),
              HasSubstr("The prompt has 65 tokens; the maximum is 64 (--max-model-len)."));
  EXPECT_THAT(refusal(*embedder, request_of(*embedder, {{5, 6}}, {.dimensions = 25})),
              HasSubstr("dimensions is 25; the model's embeddings have 24."));

  EngineConfig config;
  config.model = test::model_path("llama");
  config.kv_cache_memory = int64_t{4} << 20;
  const auto generator = Engine::start(config);
  EXPECT_THAT(refusal(*generator, request_of(*generator, {{5, 6}})), HasSubstr("--runner pooling"));
}

TEST(Pooling, EmbedsWithAnyDecoderIfRequested) {
  EngineConfig config;
  config.model = test::model_path("llama");
  config.runner = "pooling";
  config.kv_cache_memory = int64_t{4} << 20;
  const auto engine = Engine::start(config);
  EXPECT_EQ(engine->model().task, ModelTask::kEmbed);
  const auto vector = submit(*engine, request_of(*engine, {{5, 6, 7}})).get();
  EXPECT_EQ(static_cast<int64_t>(vector.size()), engine->model().embedding_size);
  double sum = 0.0;
  for (const float v : vector) sum += static_cast<double>(v) * v;
  EXPECT_NEAR(sum, 1.0, 1e-6);

  config.runner = "generate";
  config.model = pooling_model("bert").string();
  EXPECT_THROW(Engine::start(config), Error);
  config.model = pooling_model("qwen3-embedding").string();  // has an output embedding
  EXPECT_EQ(Engine::start(config)->model().task, ModelTask::kGenerate);
}

TEST(Pooling, ReadsPromptsAndMaximumLengthFromTheFiles) {
  const auto query = start("qwen3-embedding");
  EXPECT_EQ(query->model().prompts.at("query"), "Instruct: find it\nQuery:");
  EXPECT_EQ(start("bert-old-flags")->model().max_model_len, 32);
  EXPECT_THAT(start("bert-classifier")->model().labels, testing::ElementsAre("good", "bad", "neither"));
}

}  // namespace
}  // namespace quire
