// config.json of models whose layers select keys (DeepSeek-V3.2, GLM-5, MiniMax-M3) or compress them
// (DeepSeek-V4).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "models/registry.h"
#include "unit/models/config_testing.h"

namespace quire {
namespace {

using namespace test;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json indexed(const std::string& architecture, const json& changes = json::object()) {
  return with(of(architecture, {{"num_hidden_layers", 5},
                                {"q_lora_rank", 24},
                                {"kv_lora_rank", 16},
                                {"qk_rope_head_dim", 4},
                                {"qk_nope_head_dim", 6},
                                {"v_head_dim", 8},
                                {"n_routed_experts", 8},
                                {"num_experts_per_tok", 2},
                                {"moe_intermediate_size", 16},
                                {"index_n_heads", 4},
                                {"index_head_dim", 8},
                                {"index_topk", 64}}),
              changes);
}

std::vector<bool> choosing(const ModelSpec& spec) {
  std::vector<bool> out;
  for (const LayerSpec& layer : spec.layers) {
    const auto* mla = std::get_if<MlaSpec>(&layer.mixer);
    const auto* compressed = std::get_if<CompressedAttentionSpec>(&layer.mixer);
    const AttentionSpec* attention = attention_of(layer);
    out.push_back((mla != nullptr && mla->has_indexer) || (compressed != nullptr && compressed->indexer) ||
                  (attention != nullptr && attention->indexer));
  }
  return out;
}

TEST(IndexedAttention, LayersSelectKeysOrShareASelection) {
  const ModelSpec spec = parse_model(indexed("DeepseekV32ForCausalLM"));
  const auto& mla = std::get<MlaSpec>(spec.layers[0].mixer);
  EXPECT_EQ(mla.index.heads, 4);
  EXPECT_EQ(mla.index.dim, 8);
  EXPECT_EQ(mla.index.count, 64);
  EXPECT_EQ(mla.index.block, 0);
  EXPECT_THAT(choosing(spec), ElementsAre(true, true, true, true, true));
  // Indexers have NeoX-style RoPE, attention has interleaved RoPE; in GLM-5 both are interleaved.
  EXPECT_EQ(spec.ropes.at(0).style, RopeStyle::kInterleaved);
  EXPECT_EQ(spec.ropes.at(static_cast<size_t>(mla.index_rope)).style, RopeStyle::kNeox);
  const std::string glm = "GlmMoeDsaForCausalLM";
  const ModelSpec other = parse_model(indexed(glm));
  EXPECT_EQ(other.ropes.at(static_cast<size_t>(std::get<MlaSpec>(other.layers[0].mixer).index_rope)).style,
            RopeStyle::kInterleaved);
  EXPECT_THAT(choosing(other), ElementsAre(true, true, true, true, true));
  EXPECT_THAT(choosing(parse_model(indexed(glm, {{"index_topk_freq", 2}}))),
              ElementsAre(true, true, false, true, false));
  EXPECT_THAT(choosing(parse_model(indexed(glm, {{"index_topk_pattern", "FSSFS"}}))),
              ElementsAre(true, false, false, true, false));
  EXPECT_THAT(choosing(parse_model(
                  indexed(glm, {{"indexer_types", {"full", "shared", "full", "shared", "shared"}}}))),
              ElementsAre(true, false, true, false, false));
  // A block has one latent vector per token and layer, followed by the keys of the indexer if the layer has
  // one.
  const int64_t plain = 16 * 20 * 2;
  EXPECT_EQ(kv_bytes_of(spec.layers[0], DType::kBF16, 16), plain + 16 * 8 * 2);
  LayerSpec without_indexer = spec.layers[0];
  std::get<MlaSpec>(without_indexer.mixer).has_indexer = false;
  EXPECT_EQ(kv_bytes_of(without_indexer, DType::kBF16, 16), plain);
}

// Each head of the indexer selects blocks of keys for one KV head.
nlohmann::json minimax_m3(nlohmann::json fields = nlohmann::json::object()) {
  nlohmann::json config = {{"architectures", {"MiniMaxM3VLForCausalLM"}},
                           {"vocab_size", 96},
                           {"hidden_size", 32},
                           {"intermediate_size", 16},
                           {"dense_intermediate_size", 48},
                           {"shared_intermediate_size", 24},
                           {"num_hidden_layers", 2},
                           {"num_attention_heads", 4},
                           {"num_key_value_heads", 2},
                           {"head_dim", 16},
                           {"rotary_dim", 8},
                           {"num_local_experts", 4},
                           {"num_experts_per_tok", 2},
                           {"layer_types", {"full_attention", "minimax_m3_sparse"}},
                           {"mlp_layer_types", {"dense", "sparse"}},
                           {"index_n_heads", 2},
                           {"index_head_dim", 8},
                           {"index_block_size", 32},
                           {"index_topk_blocks", 3}};
  config.update(fields);
  return config;
}

TEST(IndexedAttention, EachHeadSelectsBlocks) {
  const ModelSpec spec = parse_model(minimax_m3());
  EXPECT_THAT(choosing(spec), ElementsAre(false, true));
  EXPECT_EQ(attention_in(spec, 1).indexer->masks(), 2);
  EXPECT_EQ(attention_in(spec, 1).indexer->tokens(), 96);
  EXPECT_EQ(attention_in(spec, 1).indexer->local, 1);
  EXPECT_EQ(spec.ropes.front().rotary_dim, 8);
  EXPECT_FALSE(spec.layers[0].feed_forward.moe.has_value());
  EXPECT_TRUE(spec.layers[1].feed_forward.moe.has_value());
  EXPECT_EQ(mlp_in(spec).intermediate_size, 48);
  EXPECT_EQ(spec.layers[1].feed_forward.moe->shared_intermediate_size, 24);
  // The keys of the indexer follow keys and values.
  const int64_t plain = kv_bytes_per_block(DType::kBF16, 16, 2, 16);
  EXPECT_EQ(kv_bytes_of(spec.layers[0], DType::kBF16, 16), plain);
  EXPECT_EQ(kv_bytes_of(spec.layers[1], DType::kBF16, 16), plain + 16 * 8 * 2);

  for (const auto& [field, value] : std::vector<std::pair<std::string, nlohmann::json>>{
           {"index_n_heads", 1},
           {"index_head_dim", 4},
           {"index_block_size", 24},
           {"index_local_blocks", 4},
           {"swiglu_limit", 0.0},
           {"swiglu_alpha", 1.0},
           {"layer_types", {"full_attention"}},
           {"layer_types", {"full_attention", "sliding_attention"}}})
    EXPECT_THROW(parse_model(minimax_m3({{field, value}})), Error) << field;
}

TEST(IndexedAttention, RejectsUnsupportedFields) {
  const std::string glm = "GlmMoeDsaForCausalLM";
  EXPECT_THAT(error_of(without(indexed("DeepseekV32ForCausalLM"), "q_lora_rank")), HasSubstr("q_lora_rank"));
  EXPECT_THAT(error_of(indexed(glm, {{"index_head_dim", 512}})), HasSubstr("index_head_dim"));
  EXPECT_THAT(error_of(indexed(glm, {{"layer_types", {"full_attention"}}})), HasSubstr("indexed_attention"));
  EXPECT_THAT(error_of(indexed(glm, {{"index_topk_pattern", "SFFFF"}})),
              HasSubstr("must give the first layer an indexer"));
  EXPECT_THAT(error_of(indexed(glm, {{"index_topk_pattern", "FXFFF"}})), HasSubstr("neither F nor S"));
  EXPECT_THAT(error_of(indexed(glm, {{"indexer_types", {"full", "shared"}}})), HasSubstr("indexer_types"));
}

// Windows and compressed keys.
nlohmann::json deepseek_v4(nlohmann::json fields = nlohmann::json::object()) {
  nlohmann::json config = {
      {"architectures", {"DeepseekV4ForCausalLM"}},
      {"vocab_size", 96},
      {"hidden_size", 32},
      {"moe_intermediate_size", 16},
      {"num_hidden_layers", 4},
      {"num_attention_heads", 4},
      {"num_key_value_heads", 1},
      {"head_dim", 32},
      {"qk_rope_head_dim", 8},
      {"q_lora_rank", 24},
      {"o_groups", 2},
      {"o_lora_rank", 12},
      {"n_routed_experts", 4},
      {"num_experts_per_tok", 2},
      {"index_head_dim", 16},
      {"compress_ratios", {0, 4, 128, 4, 0}},
      {"num_hash_layers", 1},
      {"rope_scaling", {{"type", "yarn"}, {"factor", 16}, {"original_max_position_embeddings", 64}}}};
  config.update(fields);
  return config;
}

TEST(CompressedAttention, ReadsTheCompressionRatioOfEachLayer) {
  const ModelSpec spec = parse_model(deepseek_v4());
  EXPECT_THAT(choosing(spec), ElementsAre(false, true, false, true));
  const auto of_layers = [&](auto field) {
    std::vector<int> values;
    for (const LayerSpec& layer : spec.layers)
      values.push_back(static_cast<int>(std::get<CompressedAttentionSpec>(layer.mixer).*field));
    return values;
  };
  EXPECT_THAT(of_layers(&CompressedAttentionSpec::compressed_tokens), ElementsAre(0, 4, 128, 4));
  EXPECT_THAT(of_layers(&CompressedAttentionSpec::overlap), ElementsAre(0, 1, 0, 1));
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    EXPECT_EQ(spec.layers[i].rope, i == 0 ? 0 : 1);
    EXPECT_EQ(spec.layers[i].feed_forward.moe->hash_vocab_size, i == 0 ? spec.vocab_size : 0);
  }
  EXPECT_THAT(of_layers(&CompressedAttentionSpec::window), ElementsAre(128, 128, 128, 128));
  // YaRN applies to layers with compressed keys only, without its attention factor. Then the inverses of
  // both.
  ASSERT_EQ(spec.ropes.size(), 4U);
  EXPECT_EQ(spec.ropes[0].scaling, RopeScaling::kNone);
  EXPECT_EQ(spec.ropes[0].theta, 10000.0);
  EXPECT_EQ(spec.ropes[1].scaling, RopeScaling::kYarn);
  EXPECT_EQ(spec.ropes[1].theta, 160000.0);
  EXPECT_EQ(spec.ropes[1].attention_factor, 1.0);
  EXPECT_EQ(spec.ropes[1].rotary_dim, 8);
  EXPECT_FALSE(spec.ropes[1].inverse);
  EXPECT_TRUE(spec.ropes[3].inverse);
  // Sixteen tokens, and as many slots for compressed keys as kernels read at once; then four keys of the
  // indexer.
  EXPECT_EQ(kv_bytes_of(spec.layers[0], DType::kBF16, 16), 16 * 32 * 2);
  EXPECT_EQ(kv_bytes_of(spec.layers[1], DType::kBF16, 16), (32 * 32 + 4 * 16) * 2);
  EXPECT_EQ(kv_bytes_of(spec.layers[2], DType::kBF16, 16), 32 * 32 * 2);
  // A block of 64 tokens has no empty slots.
  EXPECT_EQ(block_unit(spec, 16), 64);
  EXPECT_EQ(block_unit(spec, 2), 4);
  EXPECT_EQ(kv_bytes_of(spec.layers[1], DType::kBF16, 64), (80 * 32 + 16 * 16) * 2);
}

TEST(CompressedAttention, RejectsUnsupportedFields) {
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, nlohmann::json>>{{"num_key_value_heads", 2},
                                                           {"attention_bias", true},
                                                           {"o_groups", 3},
                                                           {"index_head_dim", 4},
                                                           {"compress_ratios", {0, 4, 128}},
                                                           {"compress_ratios", {0, 4, 128, 8}},
                                                           {"layer_types", {"full_attention"}},
                                                           {"mlp_layer_types", {"moe"}},
                                                           {"scoring_func", "softmax"},
                                                           {"n_shared_experts", 2},
                                                           {"hc_mult", 100}})
    EXPECT_THAT(error_of(deepseek_v4({{field, value}})), HasSubstr(field)) << field;
}

}  // namespace
}  // namespace quire
