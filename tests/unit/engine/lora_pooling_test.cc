// LoRA adapters on embedding models and classifiers: the vectors and scores of PEFT, in any batch.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/json_file.h"
#include "unit/engine/lora_testing.h"
#include "unit/exec/guarded_device.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

std::filesystem::path pooled_adapter(const std::string& name) {
  return test::golden_checkpoint("lora_pooling/" + name);
}

nlohmann::json pooled_golden(const std::filesystem::path& directory) {
  return read_json_file(directory / "golden.json");
}

const std::map<std::string, std::vector<std::string>>& pooling_adapters() {
  static const auto all = test::golden_adapters("lora_pooling");
  return all;
}

std::vector<std::string> pooling_models() {
  std::vector<std::string> names;
  for (const auto& [model, adapters] : pooling_adapters()) names.push_back(model);
  return names;
}

EngineConfig pooled_config(const std::string& model, bool adapters = true) {
  EngineConfig config;
  config.model = test::golden_checkpoint("pooling/" + model).string();
  config.threads = 1;
  config.dtype = "float32";
  config.kv_cache_memory = int64_t{4} << 20;
  config.enable_prefix_caching = false;
  if (!adapters) return config;
  for (const std::string& name : pooling_adapters().at(model))
    config.lora_modules.push_back({"lora-" + name, pooled_adapter(name).string()});
  return config;
}

struct PooledCase {
  std::string adapter;  // empty = the base model
  nlohmann::json golden;
};
std::vector<PooledCase> pooled_cases(const std::string& model) {
  std::vector<PooledCase> asked;
  const auto add = [&](const std::string& adapter, const std::filesystem::path& directory) {
    const nlohmann::json golden = pooled_golden(directory);
    for (const auto& one : golden["cases"]) asked.push_back({adapter, one});
  };
  for (const std::string& name : pooling_adapters().at(model)) add("lora-" + name, pooled_adapter(name));
  add("", test::golden_checkpoint("pooling/" + model));
  return asked;
}

std::future<std::vector<float>> submit_pooled(Engine& engine, const PooledCase& asked) {
  Request request;
  request.prompt_token_ids = asked.golden["prompt"].get<std::vector<TokenId>>();
  request.adapter_name = asked.adapter;
  request.sampling.edit().max_tokens = 0;
  request.pooling =
      PoolingRequest{{}, asked.golden["second_text"].get<int32_t>(), engine.model().pools_all_tokens};
  auto promise = std::make_shared<std::promise<std::vector<float>>>();
  auto future = promise->get_future();
  const auto id = engine.submit(std::move(request), [promise](RequestOutput&& output) {
    EXPECT_FALSE(output.failure) << output.failure->message;
    promise->set_value(std::move(output.pooled));
  });
  EXPECT_TRUE(id.ok()) << (id.ok() ? "" : id.failure().message);
  if (!id.ok()) promise->set_value({});
  return future;
}

std::vector<std::vector<float>> vectors_of(Engine& engine, const std::vector<PooledCase>& asked) {
  std::vector<std::future<std::vector<float>>> futures;
  for (const PooledCase& one : asked) futures.push_back(submit_pooled(engine, one));
  std::vector<std::vector<float>> vectors;
  for (auto& future : futures) vectors.push_back(future.get());
  return vectors;
}

class LoraPooling : public testing::TestWithParam<std::string> {};

TEST_P(LoraPooling, AllAdaptersInOneBatchGiveTheVectorsOfPeft) {
  const std::vector<PooledCase> asked = pooled_cases(GetParam());
  const auto vectors = vectors_of(*Engine::start(pooled_config(GetParam())), asked);
  for (size_t i = 0; i < asked.size(); ++i) {
    SCOPED_TRACE(asked[i].adapter);
    const auto expected = asked[i].golden["vector"].get<std::vector<float>>();
    float largest = 0.0F;
    for (const float value : expected) largest = std::max(largest, std::abs(value));
    ASSERT_EQ(vectors[i].size(), expected.size());
    for (size_t k = 0; k < expected.size(); ++k)
      EXPECT_NEAR(vectors[i][k], expected[k], 2e-5 * static_cast<double>(largest) + 1e-7) << "number " << k;
  }
}

TEST_P(LoraPooling, ARequestHasTheSameBitsInAnyBatch) {
  const std::vector<PooledCase> asked = pooled_cases(GetParam());
  EngineConfig config = pooled_config(GetParam());
  const auto together = vectors_of(*Engine::start(config), asked);
  config.long_prefill_token_threshold = 3;
  config.threads = 2;
  const auto other = Engine::start(config);
  const auto base = Engine::start(pooled_config(GetParam(), false));
  for (size_t i = 0; i < asked.size(); ++i)
    EXPECT_EQ(submit_pooled(asked[i].adapter.empty() ? *base : *other, asked[i]).get(), together[i])
        << asked[i].adapter;
}

TEST_P(LoraPooling, ADeviceWithMemoryOfItsOwnGivesTheBitsOfTheCpu) {
  const std::vector<PooledCase> asked = pooled_cases(GetParam());
  const auto expected = vectors_of(*Engine::start(pooled_config(GetParam())), asked);
  EngineHooks hooks;
  hooks.open_device = [](std::string_view /*name*/, int threads) {
    return std::make_unique<test::GuardedDevice>(threads);
  };
  EXPECT_EQ(vectors_of(*Engine::start(pooled_config(GetParam()), {}, hooks), asked), expected);
}

INSTANTIATE_TEST_SUITE_P(All, LoraPooling, testing::ValuesIn(pooling_models()),
                         [](const auto& test) { return test::test_name(test.param); });

}  // namespace
}  // namespace quire
