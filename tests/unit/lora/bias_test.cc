// Trained biases of the base.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "unit/lora/lora_testing.h"

namespace quire::lora {
namespace {

using test::AdapterFiles;
using test::counting;
using test::load;
using test::refusal;
using test::small_model;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kAttention = "base_model.model.model.layers.0.self_attn.";

// Site 0, the queries, keys and values, has the biases 10, 20, … 80.
AdapterBase with_biases() {
  AdapterBase base;
  base.biases = [](std::span<const int32_t> sites) {
    std::map<int32_t, std::vector<float>> found;
    for (const int32_t site : sites) {
      if (site == 0) found[site] = {10, 20, 30, 40, 50, 60, 70, 80};
    }
    return found;
  };
  return base;
}

std::vector<float> bias_of(const LoadedAdapter& loaded, int32_t site) {
  const LowRank* change = loaded.adapter->at(site);
  if (change == nullptr || change->bias.size() == 0) return {};
  const auto* values = change->bias.as<float>();
  return {values, values + change->bias.size() / sizeof(float)};
}

TEST(LoadAdapter, AddsTheDifferenceToTheBaseOfATrainedBias) {
  for (const std::string part : {"q_proj.bias", "q_proj.base_layer.bias"}) {
    AdapterFiles files;
    files.tensors[kAttention + part] = counting({4}, 1, DType::kBF16);
    files.tensors[std::string(kAttention) + "v_proj.bias"] = counting({2}, 100);
    const LoadedAdapter loaded = load(files, small_model(), with_biases());
    EXPECT_THAT(bias_of(loaded, 0), ElementsAre(-9, -18, -27, -36, 0, 0, 30, 21));
    EXPECT_EQ(loaded.adapter->at(0)->pieces.size(), 1U);
    EXPECT_EQ(loaded.info.bytes, (8 + 8 + 8 + 12) * 4 + 8 * 4);
  }
}

TEST(LoadAdapter, NeedsNoChangeOfLowRankForATrainedBias) {
  AdapterFiles files;
  files.tensors.clear();
  files.tensors[std::string(kAttention) + "k_proj.bias"] = counting({2}, 0);
  const LoadedAdapter loaded = load(files, small_model(), with_biases());
  EXPECT_THAT(bias_of(loaded, 0), ElementsAre(0, 0, 0, 0, -50, -59, 0, 0));
  EXPECT_EQ(loaded.adapter->at(0)->k, 4);
  EXPECT_EQ(loaded.info.modules.size(), 1U);
}

TEST(LoadAdapter, AddsATrainedBiasToTheBiasOfB) {
  AdapterFiles files;
  files.config["lora_bias"] = true;
  files.tensors[std::string(kAttention) + "q_proj.lora_B.bias"] = counting({4}, 1);
  files.tensors[std::string(kAttention) + "q_proj.bias"] = counting({4}, 11);
  const LoadedAdapter loaded = load(files, small_model(), with_biases());
  EXPECT_THAT(bias_of(loaded, 0), ElementsAre(2 + 1, 4 - 8, 6 - 17, 8 - 26, 0, 0, 0, 0));
}

TEST(LoadAdapter, OrdersATrainedBiasAsTheModelDoes) {
  AdapterFiles files;
  files.tensors.clear();
  files.tensors["model.layers.0.attention.query_key_value.bias"] = counting({8}, 0);
  const LoadedAdapter loaded = load(files, small_model(), with_biases());
  EXPECT_THAT(bias_of(loaded, 0),
              ElementsAre(0 - 10, 1 - 20, 4 - 30, 5 - 40, 2 - 50, 6 - 60, 3 - 70, 7 - 80));
}

TEST(LoadAdapter, ReportsATrainedBiasThatIsEqualToTheModels) {
  AdapterFiles files;
  files.tensors[std::string(kAttention) + "k_proj.bias"] = counting({2}, 50);
  store_f32(DType::kF32, files.tensor("self_attn.k_proj.bias").bytes.data(), 1, 60);
  const LoadedAdapter loaded = load(files, small_model(), with_biases());
  EXPECT_THAT(bias_of(loaded, 0), IsEmpty());
  EXPECT_THAT(loaded.info.without_effect, ElementsAre(std::string(kAttention) + "k_proj.bias"));
}

TEST(AdapterTensors, MustHaveTheShapeOfATrainedBias) {
  const auto problem = [](const std::string& name, std::vector<int64_t> shape) {
    AdapterFiles files;
    files.tensors["base_model.model.model.layers.0." + name] = counting(std::move(shape));
    return refusal(files, {}, small_model(), with_biases());
  };
  EXPECT_THAT(problem("self_attn.q_proj.bias", {5}),
              HasSubstr("the trained bias is [5], this model needs [4]"));
  EXPECT_THAT(problem("self_attn.q_proj.bias", {4, 1}),
              HasSubstr("the trained bias is [4, 1], expected a vector"));
  EXPECT_THAT(problem("mlp.up_proj.bias", {6}), HasSubstr("is a trained bias, the model's module has none"));
  EXPECT_THAT(problem("self_attn.sinks.bias", {4}), HasSubstr("trained biases of this vector"));
  AdapterFiles files;
  files.tensors[std::string(kAttention) + "q_proj.bias"] = counting({4});
  files.tensors[std::string(kAttention) + "qkv_proj.bias"] = counting({8});
  EXPECT_THAT(refusal(files, {}, small_model(), with_biases()),
              HasSubstr("another bias is that of the same rows"));
}

}  // namespace
}  // namespace quire::lora
