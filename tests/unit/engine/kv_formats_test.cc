// KV cache formats in an engine: memory and quality.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "engine/inspect.h"
#include "unit/engine/engine_testing.h"

namespace quire {
namespace {

using test::Answer;

EngineConfig config_for(const std::string& kv_cache_dtype) {
  EngineConfig config;
  config.model = test::model_path("quire-tiny");
  config.kv_cache_dtype = kv_cache_dtype;
  config.kv_cache_memory = int64_t{32} << 20;
  return config;
}

TEST(KvMemory, MatchesTheFormat) {
  struct Row {
    const char* name;
    int64_t bytes_per_head_extra;  // scales of a token's key or value
    int64_t bytes_per_element;
  };
  for (const Row& row : {Row{"float32", 0, 4}, Row{"bfloat16", 0, 2}, Row{"float16", 0, 2},
                         Row{"fp8_e4m3", 0, 1}, Row{"fp8_e5m2", 0, 1}, Row{"int8", 4, 1}}) {
    SCOPED_TRACE(row.name);
    const EngineConfig config = config_for(row.name);
    const ModelReport report = inspect_model(config);
    EXPECT_EQ(report.kv_cache_dtype, row.name);
    const int64_t per_token = int64_t{2} * report.num_layers * report.num_kv_heads *
                              (report.head_dim * row.bytes_per_element + row.bytes_per_head_extra);
    EXPECT_EQ(report.kv_bytes_per_token, per_token);
    EXPECT_EQ(report.kv_tokens, config.kv_cache_memory / (per_token * config.block_size) * config.block_size);

    const auto engine = Engine::start(config);
    const ModelInfo& info = engine->model();
    EXPECT_EQ(info.kv_cache_dtype, row.name);
    EXPECT_EQ(info.kv_bytes_per_token, per_token);
    EXPECT_EQ(int64_t{info.num_blocks} * info.block_size, report.kv_tokens);
    EXPECT_EQ(info.kv_pool_bytes, report.kv_tokens * per_token);
  }
}

TEST(KvMemory, RejectsUnknownFormatsWithTheSupportedOnes) {
  for (const char* name : {"int4", "uint8", "float64", "FP8"}) {
    SCOPED_TRACE(name);
    try {
      Engine::start(config_for(name));
      FAIL() << "was taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("fp8_e4m3, fp8_e5m2 or int8"), std::string::npos)
          << error.what();
    }
  }
}

// The log-probabilities of the model's validation text differ from those with a float32 cache, within a
// bound. The bounds are about four times the values for the whole text in docs/kv-formats.md.
TEST(KvQuality, IsWithinTheBoundOfEachFormat) {
  struct Row {
    const char* name;
    double mean_difference;  // mean absolute difference of log-probabilities
    double perplexity;       // difference relative to float32
  };
  std::ifstream file(std::filesystem::path(test::model_path("quire-tiny")) / "validation.txt");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<float> expected;
  for (const Row& row :
       {Row{"float32", 0, 0}, Row{"bfloat16", 0.0025, 0.0005}, Row{"float16", 0.0003, 0.0001},
        Row{"fp8_e4m3", 0.035, 0.005}, Row{"fp8_e5m2", 0.07, 0.02}, Row{"int8", 0.008, 0.001}}) {
    SCOPED_TRACE(row.name);
    EngineConfig config = config_for(row.name);
    config.dtype = "float32";
    const auto engine = Engine::start(config);
    Request request;
    request.prompt_token_ids = engine->tokenizer()->encode(text.substr(0, 3000), true);
    ASSERT_GT(request.prompt_token_ids.size(), 500U);
    request.sampling.edit().prompt_logprobs = 0;
    request.sampling.edit().max_tokens = 1;
    const Answer answer = test::ask(*engine, request);
    ASSERT_EQ(answer.prompt_logprobs.size(), request.prompt_token_ids.size() - 1);
    std::vector<float> logprobs;
    for (const auto& position : answer.prompt_logprobs) logprobs.push_back(position.chosen.logprob);
    if (expected.empty()) expected = logprobs;
    double difference = 0;
    double sum = 0;
    for (size_t i = 0; i < logprobs.size(); ++i) {
      difference += std::abs(double{logprobs[i]} - double{expected[i]});
      sum += double{logprobs[i]} - double{expected[i]};
    }
    const auto count = static_cast<double>(logprobs.size());
    EXPECT_LE(difference / count, row.mean_difference);
    EXPECT_LE(std::abs(std::expm1(-sum / count)), row.perplexity);
    if (row.mean_difference > 0) {
      EXPECT_GT(difference / count, row.mean_difference / 30) << "is this the format?";
    }
  }
}

}  // namespace
}  // namespace quire
