// Norms that an adapter has saved or whose biases it has trained.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "io/checkpoint.h"
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

std::vector<float> values(const Buffer& buffer) {
  return {buffer.as<float>(), buffer.as<float>() + buffer.size() / sizeof(float)};
}

const ReplacedNorm& norm_of(const LoadedAdapter& loaded, int32_t site) {
  static const ReplacedNorm none;
  const ReplacedNorm* found = at_site(loaded.adapter->norms, site);
  if (found != nullptr) return *found;
  ADD_FAILURE() << "the norm is not replaced";
  return none;
}

// Only the given tensors.
AdapterFiles with(const std::map<std::string, test::StoredTensor>& tensors) {
  AdapterFiles files;
  files.tensors.clear();
  for (const auto& [name, tensor] : tensors) files.tensors["base_model.model.model." + name] = tensor;
  files.config["modules_to_save"] = {"input_layernorm", "norm"};
  files.config.erase("target_modules");
  return files;
}

TEST(SavedNorm, ReplacesTheWeights) {
  const LoadedAdapter loaded =
      load(with({{"layers.0.input_layernorm.weight", counting({4}, 3, DType::kBF16)}}));
  EXPECT_THAT(values(norm_of(loaded, 0).weight), ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(norm_of(loaded, 0).bias.size(), 0U);
  ASSERT_EQ(loaded.info.modules.size(), 1U);
  EXPECT_EQ(loaded.info.modules[0].change, "replaced");
  EXPECT_EQ(loaded.info.modules[0].out, 4);
  EXPECT_EQ(loaded.info.bytes, 16);
}

TEST(SavedNorm, HasItsBiasAndTheOffsetOfTheModel) {
  const LoadedAdapter loaded = load(with(
      {{"norm.modules_to_save.weight", counting({4}, 3)}, {"norm.modules_to_save.bias", counting({4}, 7)}}));
  EXPECT_THAT(values(norm_of(loaded, 1).weight), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(values(norm_of(loaded, 1).bias), ElementsAre(7, 8, 9, 10));
}

TEST(SavedNorm, MayBeTheTrainedBiasOnly) {
  const LoadedAdapter loaded = load(with({{"norm.bias", counting({4}, 7)}}));
  EXPECT_EQ(norm_of(loaded, 1).weight.size(), 0U);
  EXPECT_THAT(values(norm_of(loaded, 1).bias), ElementsAre(7, 8, 9, 10));
  EXPECT_EQ(loaded.info.modules[0].change, "bias");
}

TEST(SavedNorm, ChangesTheDigest) {
  const auto digest = [](int first) {
    return digest_of(*load(with({{"layers.0.input_layernorm.weight", counting({4}, first)}})).adapter);
  };
  EXPECT_EQ(digest(1), digest(1));
  EXPECT_NE(digest(1), digest(2));
  const LoadedAdapter bias = load(with({{"norm.bias", counting({4}, 1)}}));
  const LoadedAdapter weight =
      load(with({{"norm.weight", counting({4}, 0)}, {"norm.bias", counting({4}, 1)}}));
  EXPECT_NE(digest_of(*bias.adapter), digest_of(*weight.adapter));
}

TEST(SavedNorm, ThatIsEqualToTheModelsHasNoEffect) {
  const std::string base =
      AdapterFiles::file_of({{"model.norm.weight", counting({4}, 3)}, {"model.norm.bias", counting({4}, 7)}});
  const auto checkpoint = Checkpoint::from_memory({.name = "base",
                                                   .config = "{}",
                                                   .generation_config = {},
                                                   .safetensors = std::as_bytes(std::span(base)),
                                                   .more_safetensors = {},
                                                   .files = {},
                                                   .weight_files = {}});
  const AdapterBase compared{.checkpoint = checkpoint.get()};
  AdapterFiles files = with({{"norm.weight", counting({4}, 3)}, {"norm.bias", counting({4}, 8)}});
  const LoadedAdapter loaded = load(files, small_model(), compared);
  EXPECT_THAT(loaded.info.without_effect, ElementsAre("base_model.model.model.norm.weight"));
  EXPECT_EQ(norm_of(loaded, 1).weight.size(), 0U);
  EXPECT_THAT(values(norm_of(loaded, 1).bias), ElementsAre(8, 9, 10, 11));
  files = with({{"norm.weight", counting({4}, 3)}, {"norm.bias", counting({4}, 7)}});
  EXPECT_THAT(refusal(files, {}, small_model(), compared), HasSubstr("no tensor has an effect"));
}

TEST(SavedNorm, IsRefusedIfItDoesNotFit) {
  EXPECT_THAT(refusal(with({{"layers.0.input_layernorm.weight", counting({5})}})),
              HasSubstr("input_layernorm: the saved weight is [5], this model needs [4]"));
  EXPECT_THAT(refusal(with({{"layers.7.input_layernorm.weight", counting({4})}})),
              HasSubstr("no such module in this layer"));
  EXPECT_THAT(refusal(with({{"layers.0.input_layernorm.bias", counting({4})}})),
              HasSubstr("is saved with a bias, the model's has none"));
  EXPECT_THAT(refusal(with({{"norm.weight", counting({4})}})),
              HasSubstr("is saved without a bias, the model's has one"));
  EXPECT_THAT(refusal(with({{"norm.bias", counting({4, 1})}})), HasSubstr("expected a vector"));
  auto infinite = counting({4});
  store_f32(DType::kF32, infinite.bytes.data(), 2, std::numeric_limits<float>::infinity());
  EXPECT_THAT(refusal(with({{"layers.0.input_layernorm.weight", infinite}})),
              HasSubstr("element 2 is not a finite number"));
  EXPECT_THAT(refusal(with({{"norm.bias", counting({4})}, {"norm.base_layer.bias", counting({4})}})),
              HasSubstr("two tensors for the same part"));
}

TEST(SavedNorm, IsShownWithoutAModel) {
  const AdapterFiles files = with({{"layers.0.input_layernorm.weight", counting({4})}});
  files.write();
  const auto info = examine_adapter(files.source(), nullptr);
  ASSERT_TRUE(info.ok()) << info.failure().message;
  EXPECT_EQ(info->modules.at(0).change, "replaced");
  EXPECT_EQ(info->modules.at(0).out, 4);
}

}  // namespace
}  // namespace quire::lora
