// Adapters on embeddings, and modules that are saved whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "ops/reference.h"
#include "unit/lora/lora_testing.h"

namespace quire::lora {
namespace {

using test::AdapterFiles;
using test::counting;
using test::load;
using test::refusal;
using test::small_model;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr const char* kEmbedding = "base_model.model.model.embed_tokens.";
constexpr const char* kHead = "base_model.model.lm_head.";

int32_t site_of(const AdapterTargets& targets, const std::string& name) {
  return find_target(targets, name).ranges.front().site;
}

std::vector<float> values_of(const Buffer& buffer, DType dtype) {
  std::vector<float> values(buffer.size() / dtype_size(dtype));
  decode_f32(dtype, buffer.data(), values.data(), static_cast<int64_t>(values.size()));
  return values;
}

AdapterFiles with_embedding(DType dtype = DType::kF32) {
  AdapterFiles files;
  files.tensors[std::string(kEmbedding) + "lora_embedding_A"] = counting({2, 10}, 1, dtype);
  files.tensors[std::string(kEmbedding) + "lora_embedding_B"] = counting({4, 2}, 1, dtype);
  return files;
}

// The saved output layer, and nothing else.
AdapterFiles with_head(int first = 1) {
  AdapterFiles files;
  files.tensors.clear();
  files.tensors[std::string(kHead) + "weight"] = counting({10, 4}, first);
  files.tensors[std::string(kHead) + "bias"] = counting({10}, 5, DType::kBF16);
  files.config["modules_to_save"] = {"lm_head"};
  return files;
}

AdapterTargets tied_model() {
  AdapterTargets targets = small_model();
  AdapterRange& embedding = targets.modules.at("embed_tokens").ranges[0];
  AdapterRange& head = targets.modules.at("lm_head").ranges[0];
  embedding.site = head.site;
  for (AdapterRange* range : {&embedding, &head})
    range->whole = WholeModule{.weight = "embed_tokens.weight", .bias = false, .tied = true};
  return targets;
}

TEST(LoadAdapter, TransposesTheMatricesOfAnEmbedding) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const AdapterFiles files = with_embedding(dtype);
    const LoadedAdapter loaded = load(files);
    const EmbeddingChange& change = *loaded.adapter->embeddings.at(site_of(small_model(), "embed_tokens"));
    EXPECT_EQ(change.vocab_size, 10);
    EXPECT_EQ(change.size, 4);
    EXPECT_EQ(change.rank, 2);
    EXPECT_EQ(change.scale, 2.0F);
    EXPECT_EQ(change.dtype, dtype);
    EXPECT_THAT(values_of(change.a, dtype),
                ElementsAreArray({1, 11, 2, 12, 3, 13, 4, 14, 5, 15, 6, 16, 7, 17, 8, 18, 9, 19, 10, 20}));
    EXPECT_THAT(values_of(change.b, dtype), ElementsAre(1, 3, 5, 7, 2, 4, 6, 8));
    const auto size = static_cast<int64_t>(dtype_size(dtype));
    EXPECT_EQ(loaded.info.bytes, (8 + 8 + 8 + 12) * 4 + (20 + 8) * size);
    EXPECT_EQ(loaded.info.modules.size(), 3U);
  }
}

TEST(LoadAdapter, HasARankAndAScaleOfItsOwnForAnEmbedding) {
  AdapterFiles files = with_embedding();
  files.config["rank_pattern"] = {{"q_proj", 2}, {"up_proj", 2}};
  files.config["r"] = 3;
  EXPECT_THAT(refusal(files), HasSubstr("embed_tokens: lora_embedding_A is [2, 10], but the rank in "
                                        "adapter_config.json is 3"));
  files.config["rank_pattern"]["embed_tokens"] = 2;
  files.config["alpha_pattern"] = {{"embed_tokens", 10}};
  EXPECT_EQ(load(files).adapter->embeddings.begin()->second->scale, 5.0F);
}

TEST(AdapterTensors, MustHaveTheVocabularyOfTheModel) {
  AdapterFiles files = with_embedding();
  files.tensors[std::string(kEmbedding) + "lora_embedding_A"] = counting({2, 11});
  EXPECT_THAT(refusal(files),
              HasSubstr("model.embed_tokens: lora_embedding_A is [2, 11], this model needs [2, 10]"));
  files = with_embedding();
  files.tensors[std::string(kEmbedding) + "lora_embedding_B"] = counting({5, 2});
  EXPECT_THAT(refusal(files),
              HasSubstr("model.embed_tokens: lora_embedding_B is [5, 2], this model needs [4, 2]"));
}

TEST(AdapterTensors, MustNotBelongToEmbeddingsOfPositions) {
  AdapterFiles files;
  files.tensors["base_model.model.position_embeddings.lora_embedding_A"] = counting({2, 10});
  files.tensors["base_model.model.position_embeddings.lora_embedding_B"] = counting({4, 2});
  EXPECT_THAT(refusal(files), HasSubstr("position_embeddings: adapters on this embedding"));
}

TEST(LoadAdapter, ReplacesTheMatrixOfASavedModule) {
  const LoadedAdapter loaded =
      load(with_head(), small_model(), {.ops = &reference_ops(), .dtype = std::nullopt});
  const ReplacedMatrix& head = *loaded.adapter->matrices.at(site_of(small_model(), "lm_head"));
  EXPECT_TRUE(loaded.adapter->tables.empty());
  EXPECT_EQ(head.weight.n, 10);
  EXPECT_EQ(head.weight.k, 4);
  EXPECT_EQ(head.weight.format.dtype, DType::kF32);
  EXPECT_THAT(values_of(head.weight.bias, DType::kF32), ElementsAre(5, 6, 7, 8, 9, 10, 11, 12, 13, 14));
  ASSERT_EQ(loaded.info.modules.size(), 1U);
  EXPECT_EQ(loaded.info.modules[0].change, "replaced");
  EXPECT_EQ(loaded.info.bytes, static_cast<int64_t>(head.weight.data.size() + head.weight.bias.size()));
  EXPECT_GE(loaded.info.bytes, 40 * 4 + 10 * 4);
  const LoadedAdapter narrow =
      load(with_head(), small_model(), {.ops = &reference_ops(), .dtype = DType::kBF16});
  EXPECT_EQ(narrow.adapter->matrices.begin()->second->weight.format.dtype, DType::kBF16);
}

TEST(LoadAdapter, ReplacesOnlyTheNamedOneOfATiedPair) {
  AdapterFiles files;
  files.tensors.clear();
  files.tensors[std::string(kEmbedding) + "weight"] = counting({10, 4});
  files.config["modules_to_save"] = {"embed_tokens"};
  const LoadedAdapter embedding = load(files, tied_model());
  EXPECT_EQ(embedding.adapter->tables.size(), 1U);
  EXPECT_TRUE(embedding.adapter->matrices.empty());
  files.tensors.clear();
  files.tensors[std::string(kHead) + "weight"] = counting({10, 4});
  files.config["modules_to_save"] = {"lm_head"};
  const LoadedAdapter head = load(files, tied_model());
  EXPECT_TRUE(head.adapter->tables.empty());
  EXPECT_EQ(head.adapter->matrices.size(), 1U);
}

TEST(LoadAdapter, ReplacesBothOfATiedPairByACopyOfTheBase) {
  for (const std::string part : {"base_layer.weight", "weight"}) {
    AdapterFiles files;
    files.tensors.clear();
    files.tensors[kEmbedding + part] = counting({10, 4});
    const LoadedAdapter loaded = load(files, tied_model());
    EXPECT_EQ(loaded.adapter->tables.size(), 1U);
    EXPECT_EQ(loaded.adapter->matrices.size(), 1U);
  }
}

TEST(LoadAdapter, DropsASavedMatrixThatIsEqualToTheModels) {
  const std::string file =
      AdapterFiles::file_of({{"embed_tokens.weight", counting({10, 4}, 1, DType::kBF16)}});
  const auto checkpoint = Checkpoint::from_memory(
      {.name = "base", .config = "{}", .safetensors = std::as_bytes(std::span(file.data(), file.size()))});
  AdapterFiles files = with_embedding();
  const std::string copy = std::string(kEmbedding) + "base_layer.weight";
  files.tensors[copy] = counting({10, 4}, 1);
  AdapterBase base;
  base.checkpoint = checkpoint.get();
  const LoadedAdapter equal = load(files, small_model(), base);
  EXPECT_TRUE(equal.adapter->tables.empty());
  EXPECT_THAT(equal.info.without_effect, ElementsAre(copy));
  EXPECT_EQ(equal.info.modules.size(), 3U);

  files.tensors[copy] = counting({10, 4}, 2);
  const LoadedAdapter different = load(files, small_model(), base);
  EXPECT_EQ(different.adapter->tables.size(), 1U);
  EXPECT_THAT(different.info.without_effect, ElementsAre());
  EXPECT_NE(digest_of(*equal.adapter), digest_of(*different.adapter));

  files.tensors.clear();
  files.tensors[copy] = counting({10, 4}, 1);
  EXPECT_THAT(refusal(files, {}, small_model(), base), HasSubstr("no tensor has an effect on this model"));
}

TEST(AdapterTensors, MustNotReplaceTheSameWeightsTwice) {
  AdapterFiles files;
  files.tensors[std::string(kEmbedding) + "weight"] = counting({10, 4}, 1);
  files.tensors[std::string(kHead) + "weight"] = counting({10, 4}, 2);
  EXPECT_THAT(refusal(files, {}, tied_model()), HasSubstr("another saved module replaces the same weights"));
  files.tensors[std::string(kHead) + "weight"] = counting({10, 4}, 1);
  EXPECT_EQ(load(files, tied_model()).adapter->tables.size(), 1U);
}

TEST(AdapterTensors, MustHaveTheBiasOfASavedModule) {
  AdapterFiles files = with_head();
  files.tensors.erase(std::string(kHead) + "bias");
  EXPECT_THAT(refusal(files), HasSubstr("lm_head: is saved without a bias, the model's has one"));
  files = with_head();
  files.tensors[std::string(kHead) + "bias"] = counting({9});
  EXPECT_THAT(refusal(files), HasSubstr("lm_head: the saved bias is [9], this model needs [10]"));
  files.tensors.clear();
  files.tensors[std::string(kEmbedding) + "weight"] = counting({10, 4});
  files.tensors[std::string(kEmbedding) + "bias"] = counting({10});
  EXPECT_THAT(refusal(files), HasSubstr("embed_tokens: is saved with a bias, the model's has none"));
}

// Everything that these forms change.
TEST(DigestOfAnAdapter, CoversEmbeddingsAndSavedModules) {
  const auto digest = [](const AdapterFiles& files) { return digest_of(*load(files).adapter); };
  EXPECT_EQ(digest(with_embedding()), digest(with_embedding()));
  AdapterFiles files = with_embedding();
  files.tensors[std::string(kEmbedding) + "lora_embedding_A"] = counting({2, 10}, 2);
  EXPECT_NE(digest(files), digest(with_embedding()));
  files = with_embedding();
  files.config["alpha_pattern"] = {{"embed_tokens", 10}};
  EXPECT_NE(digest(files), digest(with_embedding()));
  EXPECT_EQ(digest(with_head()), digest(with_head()));
  EXPECT_NE(digest(with_head(2)), digest(with_head()));
  files = with_head();
  files.tensors[std::string(kHead) + "bias"] = counting({10}, 6, DType::kBF16);
  EXPECT_NE(digest(files), digest(with_head()));
}

}  // namespace
}  // namespace quire::lora
