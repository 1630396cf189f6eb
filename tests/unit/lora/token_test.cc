// Trained tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

constexpr const char* kTokens = "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta";

AdapterFiles with_tokens(const nlohmann::ordered_json& ids, DType dtype = DType::kF32) {
  AdapterFiles files;
  files.config["trainable_token_indices"] = ids;
  files.tensors[kTokens] = counting({3, 4}, 1, dtype);
  return files;
}

TEST(LoadAdapter, OrdersTrainedTokensByTheirNumbers) {
  for (const nlohmann::ordered_json& ids :
       {nlohmann::ordered_json{7, 2, 9}, nlohmann::ordered_json{{"embed_tokens", {7, 2, 9}}}}) {
    const LoadedAdapter loaded = load(with_tokens(ids, DType::kBF16));
    ASSERT_EQ(loaded.adapter->input_tokens.size(), 1U);
    EXPECT_TRUE(loaded.adapter->output_tokens.empty());
    const TrainedTokens& tokens = *loaded.adapter->input_tokens.begin()->second;
    EXPECT_THAT(tokens.ids, ElementsAre(2, 7, 9));
    EXPECT_EQ(tokens.dtype, DType::kBF16);
    std::vector<float> values(12);
    decode_f32(tokens.dtype, tokens.values.data(), values.data(), 12);
    EXPECT_THAT(values, ElementsAre(5, 6, 7, 8, 1, 2, 3, 4, 9, 10, 11, 12));
    EXPECT_EQ(loaded.info.bytes, (8 + 8 + 8 + 12) * 4 + 12 * 2 + 3 * 4);
  }
}

TEST(LoadAdapter, ReplacesTrainedTokensInBothOfATiedPair) {
  AdapterTargets targets = small_model();
  AdapterRange& embedding = targets.modules.at("embed_tokens").ranges[0];
  AdapterRange& head = targets.modules.at("lm_head").ranges[0];
  embedding.site = head.site;
  for (AdapterRange* range : {&embedding, &head}) range->whole = WholeModule{.bias = false, .tied = true};
  const LoadedAdapter loaded = load(with_tokens({7, 2, 9}), targets);
  EXPECT_EQ(loaded.adapter->input_tokens.at(head.site), loaded.adapter->output_tokens.at(head.site));
  for (AdapterRange* range : {&embedding, &head}) range->whole->bias = true;
  EXPECT_THAT(refusal(with_tokens({7, 2, 9}), {}, targets), HasSubstr("an output layer with a bias"));
}

TEST(AdapterTensors, MustHaveTheTrainedTokensOfTheConfiguration) {
  const auto problem = [](const nlohmann::ordered_json& ids) { return refusal(with_tokens(ids)); };
  EXPECT_THAT(problem({1, 2}), HasSubstr("is [3, 4], but trainable_token_indices lists 2 tokens"));
  EXPECT_THAT(problem({{"other", {1, 2, 3}}}), HasSubstr("lists 0 tokens"));
  EXPECT_THAT(problem({1, 2, 1}), HasSubstr("lists a token twice"));
  EXPECT_THAT(problem({1, 2, 10}), HasSubstr("has token 10, this model has 10"));
  EXPECT_THAT(problem({1, 2, -1}), HasSubstr("has token -1, this model has 10"));
  EXPECT_THAT(problem("all"), HasSubstr("trainable_token_indices is \"all\", expected a list of tokens"));
  EXPECT_THAT(problem({1, "a", 2}),
              HasSubstr("trainable_token_indices is a list, expected a list of tokens"));
  AdapterFiles files = with_tokens({7, 2, 9});
  files.tensors[kTokens] = counting({3, 5});
  EXPECT_THAT(refusal(files), HasSubstr("trainable_tokens_delta is [3, 5], this model needs [3, 4]"));
  files = with_tokens({7, 2, 9});
  files.tensors["base_model.model.model.embed_tokens.lora_embedding_A"] = counting({2, 10});
  files.tensors["base_model.model.model.embed_tokens.lora_embedding_B"] = counting({4, 2});
  EXPECT_THAT(refusal(files), HasSubstr("has trained tokens and another change"));
}

TEST(DigestOfAnAdapter, CoversTrainedTokens) {
  const auto digest = [](const AdapterFiles& files) { return digest_of(*load(files).adapter); };
  EXPECT_EQ(digest(with_tokens({7, 2, 9})), digest(with_tokens({7, 2, 9})));
  EXPECT_NE(digest(with_tokens({7, 2, 9})), digest(with_tokens({7, 2, 8})));
  AdapterFiles files = with_tokens({7, 2, 9});
  files.tensors[kTokens] = counting({3, 4}, 2);
  EXPECT_NE(digest(files), digest(with_tokens({7, 2, 9})));
}

}  // namespace
}  // namespace quire::lora
