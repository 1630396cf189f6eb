// config.json to ArchSpec: what each field means, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/json_file.h"
#include "models/arch_spec.h"
#include "models/registry.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json llama() {
  return json{{"architectures", {"LlamaForCausalLM"}},
              {"vocab_size", 100},
              {"hidden_size", 64},
              {"intermediate_size", 96},
              {"num_hidden_layers", 3},
              {"num_attention_heads", 8},
              {"num_key_value_heads", 2},
              {"rms_norm_eps", 1e-5},
              {"max_position_embeddings", 512},
              {"rope_theta", 5000.0},
              {"tie_word_embeddings", true}};
}

json with(json config, const json& changes) {
  for (const auto& [key, value] : changes.items()) config[key] = value;
  return config;
}

json without(json config, const std::string& key) {
  config.erase(key);
  return config;
}

json of(const std::string& architecture, const json& changes = json::object()) {
  return with(with(llama(), {{"architectures", {architecture}}}), changes);
}

std::string error_of(const json& config) {
  try {
    parse_arch(config);
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << "accepted: " << config.dump();
  return "";
}

std::vector<int32_t> windows(const ArchSpec& spec) {
  std::vector<int32_t> all;
  for (const auto& layer : spec.layers) all.push_back(layer.window);
  return all;
}

TEST(Arch, ReadsLlama) {
  const ArchSpec spec =
      parse_arch(with(llama(), {{"bos_token_id", 1}, {"eos_token_id", {2, 3}}, {"mlp_bias", true}}));
  EXPECT_EQ(spec.architecture, "LlamaForCausalLM");
  EXPECT_EQ(spec.model_type, "llama");
  EXPECT_EQ(spec.vocab_size, 100);
  EXPECT_EQ(spec.hidden_size, 64);
  EXPECT_EQ(spec.intermediate_size, 96);
  EXPECT_EQ(spec.num_layers, 3);
  EXPECT_EQ(spec.num_heads, 8);
  EXPECT_EQ(spec.num_kv_heads, 2);
  EXPECT_EQ(spec.head_dim, 8);
  EXPECT_FLOAT_EQ(spec.norm_eps, 1e-5F);
  EXPECT_EQ(spec.max_position_embeddings, 512);
  EXPECT_EQ(spec.max_model_len, 512);
  EXPECT_DOUBLE_EQ(spec.ropes[0].theta, 5000.0);
  EXPECT_EQ(spec.ropes[0].rotary_dim, 8);
  EXPECT_EQ(spec.ropes[0].scaling, RopeScaling::kNone);
  EXPECT_TRUE(spec.tie_word_embeddings);
  EXPECT_TRUE(spec.mlp_bias);
  EXPECT_FALSE(spec.qkv_bias);
  EXPECT_EQ(spec.bos_token_id, 1);
  EXPECT_THAT(spec.eos_token_ids, ElementsAre(2, 3));
  EXPECT_THAT(windows(spec), ElementsAre(0, 0, 0));
  EXPECT_FLOAT_EQ(spec.layers[0].attention_scale, 1.0F / std::sqrt(8.0F));
}

TEST(Arch, OldConfigurationsLackFields) {
  json config = llama();
  for (const char* key : {"num_key_value_heads", "rope_theta", "tie_word_embeddings", "rms_norm_eps"})
    config.erase(key);
  const ArchSpec spec = parse_arch(config);
  EXPECT_EQ(spec.num_kv_heads, 8);
  EXPECT_EQ(spec.head_dim, 8);
  EXPECT_DOUBLE_EQ(spec.ropes[0].theta, 10000.0);
  EXPECT_FALSE(spec.tie_word_embeddings);
  EXPECT_FLOAT_EQ(spec.norm_eps, 1e-6F);
  EXPECT_TRUE(spec.eos_token_ids.empty());
  EXPECT_FALSE(spec.bos_token_id.has_value());
}

TEST(Arch, NullCountsAsAbsent) {
  const ArchSpec spec = parse_arch(
      with(llama(), {{"head_dim", nullptr}, {"rope_scaling", nullptr}, {"eos_token_id", nullptr}}));
  EXPECT_EQ(spec.head_dim, 8);
}

TEST(Arch, WholeNumbersMayBeWrittenAsFractions) {
  EXPECT_EQ(parse_arch(with(llama(), {{"max_position_embeddings", 512.0}})).max_position_embeddings, 512);
}

TEST(Arch, ModelTypeServesWhereArchitecturesIsMissing) {
  EXPECT_EQ(parse_arch(with(without(llama(), "architectures"), {{"model_type", "qwen2"}})).architecture,
            "Qwen2ForCausalLM");
}

TEST(Arch, TokenIdsOutsideTheVocabularyAreLeftOut) {
  EXPECT_THAT(parse_arch(with(llama(), {{"eos_token_id", {-1, 99, 100}}})).eos_token_ids, ElementsAre(99));
}

TEST(Arch, RopeParametersOfTransformers5) {
  const ArchSpec spec = parse_arch(
      with(without(llama(), "rope_theta"),
           {{"rope_parameters", {{"rope_type", "linear"}, {"rope_theta", 777.0}, {"factor", 3.0}}}}));
  EXPECT_DOUBLE_EQ(spec.ropes[0].theta, 777.0);
  EXPECT_EQ(spec.ropes[0].scaling, RopeScaling::kLinear);
  EXPECT_DOUBLE_EQ(spec.ropes[0].factor, 3.0);
  EXPECT_EQ(spec.max_model_len, 1536);
}

TEST(Arch, YarnLengthensTheModel) {
  const json scaling = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 512}};
  EXPECT_EQ(parse_arch(with(llama(), {{"rope_scaling", scaling}})).max_model_len, 2048);
  // Where the configuration counts the factor in already, it stays.
  EXPECT_EQ(
      parse_arch(with(llama(), {{"rope_scaling", scaling}, {"max_position_embeddings", 2048}})).max_model_len,
      2048);
}

TEST(Arch, RopeFrequenciesEqualTransformers) {
  const json cases =
      read_json_file(std::filesystem::path(QUIRE_SOURCE_DIR) / "tests/golden/models/rope.json");
  ASSERT_GE(cases.size(), 8U);
  for (const auto& [name, item] : cases.items()) {
    SCOPED_TRACE(name);
    json config = with(llama(), {{"num_key_value_heads", 1}});
    config.erase("rope_theta");
    const bool qwen = item["config"]["model_type"] == "qwen2";
    config = with(config, {{"architectures", {qwen ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}}});
    const ArchSpec spec = parse_arch(with(config, item["config"]));
    const auto expected = item["inverse_frequencies"].get<std::vector<float>>();
    const auto found = rope_inverse_frequencies(spec.ropes[0]);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 3e-7 * expected[i]) << i;
    EXPECT_NEAR(spec.ropes[0].attention_factor, item["attention_factor"].get<double>(), 1e-12);
  }
}

TEST(Arch, MistralHasItsWindowInEveryLayer) {
  EXPECT_THAT(windows(parse_arch(of("MistralForCausalLM", {{"sliding_window", 128}}))),
              ElementsAre(128, 128, 128));
  EXPECT_THAT(windows(parse_arch(of("MistralForCausalLM", {{"sliding_window", nullptr}}))),
              ElementsAre(0, 0, 0));
  EXPECT_THAT(windows(parse_arch(of("MistralForCausalLM"))), ElementsAre(4096, 4096, 4096));
}

TEST(Arch, QwenWindowsAreOffUnlessUsed) {
  for (const char* name : {"Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    const json fields = {{"sliding_window", 32}, {"max_window_layers", 1}};
    EXPECT_THAT(windows(parse_arch(of(name, fields))), ElementsAre(0, 0, 0));
    EXPECT_THAT(windows(parse_arch(of(name, with(fields, {{"use_sliding_window", false}})))),
                ElementsAre(0, 0, 0));
    EXPECT_THAT(windows(parse_arch(of(name, with(fields, {{"use_sliding_window", true}})))),
                ElementsAre(0, 32, 32));
    const json types = {"sliding_attention", "full_attention", "sliding_attention"};
    EXPECT_THAT(
        windows(parse_arch(of(name, with(fields, {{"use_sliding_window", true}, {"layer_types", types}})))),
        ElementsAre(32, 0, 32));
    EXPECT_THAT(windows(parse_arch(of(name, with(fields, {{"layer_types", types}})))), ElementsAre(0, 0, 0));
  }
}

TEST(Arch, QwenBiasesAndNorms) {
  const ArchSpec two = parse_arch(of("Qwen2ForCausalLM"));
  EXPECT_TRUE(two.qkv_bias);
  EXPECT_FALSE(two.out_bias);
  EXPECT_EQ(two.qk_norm, QkNorm::kNone);
  const ArchSpec three = parse_arch(of("Qwen3ForCausalLM"));
  EXPECT_FALSE(three.qkv_bias);
  EXPECT_EQ(three.qk_norm, QkNorm::kHeads);
  EXPECT_EQ(three.head_dim, 128);
  EXPECT_TRUE(parse_arch(of("Qwen3ForCausalLM", {{"attention_bias", true}})).out_bias);
}

json gpt2() {
  return json{{"architectures", {"GPT2LMHeadModel"}},
              {"vocab_size", 100},
              {"n_embd", 48},
              {"n_layer", 2},
              {"n_head", 3},
              {"n_positions", 64}};
}

TEST(Arch, ReadsGpt2) {
  const ArchSpec spec = parse_arch(with(gpt2(), {{"n_inner", nullptr}}));
  EXPECT_EQ(spec.intermediate_size, 192);
  EXPECT_EQ(spec.head_dim, 16);
  EXPECT_EQ(spec.position, PositionKind::kLearned);
  EXPECT_EQ(spec.norm, NormKind::kLayer);
  EXPECT_EQ(spec.activation, Activation::kGeluTanh);
  EXPECT_TRUE(spec.tie_word_embeddings);
  EXPECT_EQ(spec.max_model_len, 64);
  EXPECT_FLOAT_EQ(spec.layers[1].attention_scale, 0.25F);
  EXPECT_FLOAT_EQ(parse_arch(with(gpt2(), {{"scale_attn_weights", false}})).layers[1].attention_scale, 1.0F);
  EXPECT_FLOAT_EQ(
      parse_arch(with(gpt2(), {{"scale_attn_by_inverse_layer_idx", true}})).layers[1].attention_scale,
      0.125F);
}

// transformers has no MiniCPM of its own: what the model's own code multiplies.
TEST(Arch, CountsExpertsUnderAnyOfTheNames) {
  const json moe = {{"moe_intermediate_size", 16}, {"num_experts_per_tok", 2}};
  for (const char* field : {"num_experts", "num_local_experts", "n_routed_experts"})
    EXPECT_EQ(parse_arch(with(of("Qwen3MoeForCausalLM", moe), {{field, 6}})).moe->num_experts, 6) << field;
}

TEST(Arch, ReadsGemma4AsTransformers5SavesIt) {
  const json own = {{"head_dim", 8},
                    {"sliding_window", 4},
                    {"attention_k_eq_v", true},
                    {"layer_types", {"sliding_attention", "sliding_attention", "full_attention"}}};
  const json gemma = with(of("Gemma4ForCausalLM"), own);
  const ArchSpec once = parse_arch(with(gemma, {{"global_head_dim", 16}, {"num_global_key_value_heads", 1}}));
  const json full = {{"head_dim", 16}, {"num_key_value_heads", 1}};
  const ArchSpec by_layer = parse_arch(with(gemma, {{"per_layer_config", {{"2", full}}}}));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(by_layer.layers[i].head_dim, i == 2 ? 16 : 8);
    EXPECT_EQ(by_layer.layers[i].head_dim, once.layers[i].head_dim);
    EXPECT_EQ(by_layer.layers[i].num_kv_heads, once.layers[i].num_kv_heads);
  }
  EXPECT_EQ(by_layer.ropes.front().rotary_dim, once.ropes.front().rotary_dim);
  EXPECT_THAT(error_of(with(gemma, {{"per_layer_config", {{"1", full}, {"2", full}}}})),
              HasSubstr("'per_layer_config.1' has heads of another kind"));
}

TEST(Arch, MiniCpmScalesEmbeddingsResidualsAndLogits) {
  const ArchSpec spec =
      parse_arch(of("MiniCPMForCausalLM",
                    {{"scale_emb", 12}, {"scale_depth", 1.4}, {"dim_model_base", 16}, {"hidden_size", 64}}));
  EXPECT_FLOAT_EQ(spec.embedding_multiplier, 12.0F);
  EXPECT_FLOAT_EQ(spec.residual_multiplier, 1.4F / std::sqrt(static_cast<float>(spec.num_layers)));
  EXPECT_FLOAT_EQ(spec.logit_scale, 0.25F);
}

TEST(Arch, UnknownArchitecturesAreNamedWithThoseSupported) {
  const std::string error = error_of(of("Gemma9ForCausalLM"));
  EXPECT_THAT(
      error, HasSubstr("config.json: architecture 'Gemma9ForCausalLM' is not supported; the closest that is: "
                       "Gemma"));
  for (const Architecture& known : architectures()) EXPECT_THAT(error, HasSubstr(known.name));
  EXPECT_THAT(error_of(with(without(llama(), "architectures"), {{"model_type", "foo"}})),
              HasSubstr("model_type 'foo'"));
  EXPECT_THAT(error_of(without(llama(), "architectures")), HasSubstr("'architectures' is missing"));
  EXPECT_THAT(error_of(json::array()), HasSubstr("not a JSON object"));
}

struct BadField {
  const char* field;
  json value;
  const char* message;
};

TEST(Arch, WrongAndAbsurdFieldsAreNamed) {
  const double nan = std::nan("");
  const std::vector<BadField> cases = {
      {"vocab_size", 0, "'vocab_size' is 0, but must be between 1 and"},
      {"vocab_size", -5, "'vocab_size' is -5"},
      {"vocab_size", "x", "'vocab_size' must be a whole number, but is \"x\""},
      {"vocab_size", 1.5, "'vocab_size' must be a whole number"},
      {"vocab_size", nan, "'vocab_size' must be a whole number"},
      {"vocab_size", 1e300, "'vocab_size' must be a whole number"},
      {"vocab_size", UINT64_MAX, "'vocab_size' must be a whole number"},
      {"vocab_size", nullptr, "'vocab_size' is missing"},
      {"hidden_size", int64_t{1} << 40, "'hidden_size' is 1099511627776"},
      {"hidden_size", 65, "'num_attention_heads' is 8, which does not divide hidden_size (65)"},
      {"num_hidden_layers", 1000000000, "'num_hidden_layers'"},
      {"num_attention_heads", 0, "'num_attention_heads'"},
      {"num_key_value_heads", 3, "'num_key_value_heads' is 3, which does not divide num_attention_heads (8)"},
      {"num_key_value_heads", 16, "'num_key_value_heads' is 16"},
      {"head_dim", 7, "'head_dim' gives rotary positions 7 dimensions, they need an even number"},
      {"head_dim", -2, "'head_dim'"},
      {"max_position_embeddings", 0, "'max_position_embeddings'"},
      {"rms_norm_eps", -1.0, "'rms_norm_eps'"},
      {"rms_norm_eps", nan, "'rms_norm_eps' is"},
      {"rope_theta", 0, "'rope_theta'"},
      {"rope_theta", "10000", "'rope_theta' must be a number"},
      {"tie_word_embeddings", 1, "'tie_word_embeddings' must be true or false"},
      {"hidden_act", "mish", "'hidden_act' is 'mish', which is not supported; supported: silu"},
      {"hidden_act", 3, "'hidden_act' must be a string"},
      {"architectures", "LlamaForCausalLM", "'architectures' must be a list"},
      {"architectures", {1}, "'architectures' must hold strings"},
      {"eos_token_id", "2", "'eos_token_id' must be a token id"},
      {"partial_rotary_factor", 0.5, "'partial_rotary_factor' other than 1"},
      {"rope_scaling", 3, "'rope_scaling' must be an object"},
      {"rope_scaling", "linear", "'rope_scaling' must be an object"},
      {"rope_scaling",
       {{"type", "spiral"}, {"factor", 2.0}},
       "'rope_scaling.type' is 'spiral', which is not supported"},
      {"rope_scaling", {{"rope_type", "dynamic"}}, "'rope_scaling.factor' is missing"},
      {"rope_scaling",
       {{"rope_type", "longrope"}, {"short_factor", {1.0}}, {"long_factor", {1.0}}},
       "'rope_scaling.short_factor' has 1 numbers for 4 pairs"},
      {"rope_scaling",
       {{"rope_type", "longrope"}, {"short_factor", {1.0, 1.0, 1.0, "x"}}},
       "'rope_scaling.short_factor' must hold numbers"},
      {"rope_scaling", {{"rope_type", "linear"}}, "'rope_scaling.factor' is missing"},
      {"rope_scaling", {{"rope_type", "linear"}, {"factor", 0}}, "'rope_scaling.factor' is 0"},
      {"rope_scaling",
       {{"rope_type", "llama3"}, {"factor", 8.0}},
       "'rope_scaling.low_freq_factor' is missing"},
      {"rope_scaling",
       {{"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 4.0}, {"high_freq_factor", 4.0}},
       "'rope_scaling.high_freq_factor' must be greater"},
      {"rope_parameters",
       {{"full_attention", {{"rope_type", "default"}}}},
       "'rope_parameters.full_attention'"},
  };
  for (const auto& item : cases) {
    EXPECT_THAT(error_of(with(llama(), {{item.field, item.value}})),
                HasSubstr(std::string("config.json: ") + item.message));
  }
  const json moe = {{"intermediate_size", 16}, {"num_local_experts", 4}};
  EXPECT_THAT(error_of(with(of("MixtralForCausalLM", moe), {{"num_experts_per_tok", 5}})),
              HasSubstr("'num_experts_per_tok' is 5, more than the 4 experts of num_local_experts"));
  EXPECT_THAT(error_of(with(of("MixtralForCausalLM", moe), {{"num_local_experts", 5000}})),
              HasSubstr("'num_local_experts' is 5000"));
  EXPECT_THAT(error_of(of("MistralForCausalLM", {{"sliding_window", -1}})),
              HasSubstr("'sliding_window' is -1"));
  EXPECT_THAT(
      error_of(of("Qwen2ForCausalLM", {{"use_sliding_window", true}, {"layer_types", {"full_attention"}}})),
      HasSubstr("'layer_types' has 1 entries for 3 layers"));
  EXPECT_THAT(
      error_of(of("Qwen2ForCausalLM", {{"use_sliding_window", true}, {"layer_types", {"a", "b", "c"}}})),
      HasSubstr("'layer_types' holds 'a'"));
  EXPECT_THAT(error_of(with(gpt2(), {{"n_head", 5}})),
              HasSubstr("'n_head' is 5, which does not divide n_embd (48)"));
  EXPECT_THAT(error_of(with(gpt2(), {{"add_cross_attention", true}})),
              HasSubstr("'add_cross_attention' is not supported"));
}

json zamba2(const json& changes = json::object()) {
  return with(of("Zamba2ForCausalLM", {{"num_key_value_heads", 8},
                                       {"layers_block_type", {"mamba", "hybrid", "hybrid"}},
                                       {"n_mamba_heads", 4}}),
              changes);
}

TEST(Zamba2, BlocksAreUsedInTurn) {
  const json four =
      zamba2({{"num_hidden_layers", 5},
              {"layers_block_type", {"hybrid", "linear_attention", "hybrid", "hybrid", "hybrid"}},
              {"num_mem_blocks", 2}});
  const ArchSpec spec = parse_arch(four);
  std::vector<int32_t> sources;
  std::vector<int32_t> uses;
  for (const LayerSpec& layer : spec.layers) {
    EXPECT_EQ(layer.recurrence, Recurrence::kMamba);
    EXPECT_EQ(layer.attention, layer.block_source >= 0);
    sources.push_back(layer.block_source);
    if (layer.attention) uses.push_back(layer.block_use);
  }
  EXPECT_THAT(sources, ElementsAre(0, -1, 2, 0, 2));
  EXPECT_THAT(uses, ElementsAre(0, 1, 2, 3));
  // Heads are as wide as the hidden states and the tokens' vectors together.
  EXPECT_EQ(spec.head_dim, 16);
  EXPECT_FLOAT_EQ(spec.layers[0].attention_scale, static_cast<float>(1.0 / std::sqrt(8.0)));
  EXPECT_TRUE(spec.ropes.empty());
  EXPECT_EQ(spec.max_model_len, 512);
  EXPECT_EQ(parse_arch(zamba2({{"use_mem_rope", true}, {"use_long_context", true}})).max_model_len, 16384);
}

TEST(Zamba2, RefusesWhatItCannotDo) {
  EXPECT_THAT(error_of(zamba2({{"layers_block_type", {"mamba", "hybrid"}}})), HasSubstr("layers_block_type"));
  EXPECT_THAT(error_of(zamba2({{"layers_block_type", {"mamba", "attention", "hybrid"}}})),
              HasSubstr("'attention', which is not one of mamba"));
  EXPECT_THAT(error_of(zamba2({{"tie_word_embeddings", false}})), HasSubstr("tie_word_embeddings"));
  EXPECT_THAT(error_of(zamba2({{"attention_head_dim", 8}})), HasSubstr("attention_head_dim"));
  EXPECT_THAT(error_of(zamba2({{"num_key_value_heads", 2}, {"use_shared_attention_adapter", true}})),
              HasSubstr("num_key_value_heads"));
  EXPECT_THAT(error_of(zamba2({{"use_long_context", true},
                               {"rope_parameters", {{"rope_type", "linear"}, {"factor", 2.0}}}})),
              HasSubstr("use_long_context"));
}

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

std::vector<bool> choosing(const ArchSpec& spec) {
  std::vector<bool> out;
  for (const LayerSpec& layer : spec.layers) out.push_back(layer.indexer);
  return out;
}

TEST(IndexedAttention, LayersChooseKeysOrShareAChoice) {
  const ArchSpec spec = parse_arch(indexed("DeepseekV32ForCausalLM"));
  EXPECT_EQ(spec.indexer.heads, 4);
  EXPECT_EQ(spec.indexer.dim, 8);
  EXPECT_EQ(spec.indexer.count, 64);
  EXPECT_EQ(spec.indexer.block, 0);
  EXPECT_THAT(choosing(spec), ElementsAre(true, true, true, true, true));
  // Indexers turn halves, attention turns neighbours; in GLM-5 both turn neighbours.
  EXPECT_EQ(spec.ropes.at(0).style, RopeStyle::kInterleaved);
  EXPECT_EQ(spec.ropes.at(static_cast<size_t>(spec.index_rope)).style, RopeStyle::kHalves);
  const std::string glm = "GlmMoeDsaForCausalLM";
  const ArchSpec other = parse_arch(indexed(glm));
  EXPECT_EQ(other.ropes.at(static_cast<size_t>(other.index_rope)).style, RopeStyle::kInterleaved);
  EXPECT_THAT(choosing(other), ElementsAre(true, true, true, true, true));
  EXPECT_THAT(choosing(parse_arch(indexed(glm, {{"index_topk_freq", 2}}))),
              ElementsAre(true, true, false, true, false));
  EXPECT_THAT(choosing(parse_arch(indexed(glm, {{"index_topk_pattern", "FSSFS"}}))),
              ElementsAre(true, false, false, true, false));
  EXPECT_THAT(
      choosing(parse_arch(indexed(glm, {{"indexer_types", {"full", "shared", "full", "shared", "shared"}}}))),
      ElementsAre(true, false, true, false, false));
  // A block holds a vector of each token for each layer, and behind those of a layer with an indexer its
  // keys.
  const int64_t plain = 16 * 20 * 2;
  EXPECT_EQ(kv_bytes_of(spec, spec.layers[0], DType::kBF16, 16), plain + 16 * 8 * 2);
  LayerSpec without_indexer = spec.layers[0];
  without_indexer.indexer = false;
  EXPECT_EQ(kv_bytes_of(spec, without_indexer, DType::kBF16, 16), plain);
}

// Blocks of keys, chosen for each key head by a head of the indexer.
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

TEST(IndexedAttention, BlocksAreChosenByEachHead) {
  const ArchSpec spec = parse_arch(minimax_m3());
  EXPECT_THAT(choosing(spec), ElementsAre(false, true));
  EXPECT_EQ(spec.indexer.masks(), 2);
  EXPECT_EQ(spec.indexer.tokens(), 96);
  EXPECT_EQ(spec.indexer.local, 1);
  EXPECT_EQ(spec.ropes.front().rotary_dim, 8);
  EXPECT_FALSE(spec.layers[0].experts);
  EXPECT_TRUE(spec.layers[1].experts);
  EXPECT_EQ(spec.intermediate_size, 48);
  EXPECT_EQ(spec.moe->shared_intermediate_size, 24);
  // Behind keys and values the indexer's keys.
  const int64_t plain = kv_bytes_per_block(DType::kBF16, 16, 2, 16);
  EXPECT_EQ(kv_bytes_of(spec, spec.layers[0], DType::kBF16, 16), plain);
  EXPECT_EQ(kv_bytes_of(spec, spec.layers[1], DType::kBF16, 16), plain + 16 * 8 * 2);

  for (const auto& [field, value] : std::vector<std::pair<std::string, nlohmann::json>>{
           {"index_n_heads", 1},
           {"index_head_dim", 4},
           {"index_block_size", 24},
           {"index_local_blocks", 4},
           {"swiglu_limit", 5.0},
           {"layer_types", {"full_attention"}},
           {"layer_types", {"full_attention", "sliding_attention"}}})
    EXPECT_THROW(parse_arch(minimax_m3({{field, value}})), Error) << field;
}

TEST(IndexedAttention, RefusesWhatItCannotDo) {
  const std::string glm = "GlmMoeDsaForCausalLM";
  EXPECT_THAT(error_of(without(indexed("DeepseekV32ForCausalLM"), "q_lora_rank")), HasSubstr("q_lora_rank"));
  EXPECT_THAT(error_of(indexed(glm, {{"index_head_dim", 512}})), HasSubstr("index_head_dim"));
  EXPECT_THAT(error_of(indexed(glm, {{"layer_types", {"full_attention"}}})), HasSubstr("indexed_attention"));
  EXPECT_THAT(error_of(indexed(glm, {{"index_topk_pattern", "SFFFF"}})), HasSubstr("share with"));
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

TEST(CompressedAttention, LayersHaveKeysOfTheirOwnKinds) {
  const ArchSpec spec = parse_arch(deepseek_v4());
  EXPECT_THAT(choosing(spec), ElementsAre(false, true, false, true));
  const auto of_layers = [&](auto field) {
    std::vector<int> values;
    for (const LayerSpec& layer : spec.layers) values.push_back(static_cast<int>(layer.*field));
    return values;
  };
  EXPECT_THAT(of_layers(&LayerSpec::compressed_tokens), ElementsAre(0, 4, 128, 4));
  EXPECT_THAT(of_layers(&LayerSpec::compressed_overlap), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(of_layers(&LayerSpec::rope), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(of_layers(&LayerSpec::hashed_experts), ElementsAre(1, 0, 0, 0));
  EXPECT_EQ(spec.layers[0].window, 128);
  // Stretched where keys are compressed alone, by cosines that stay as they are; then both turned back.
  ASSERT_EQ(spec.ropes.size(), 4U);
  EXPECT_EQ(spec.ropes[0].scaling, RopeScaling::kNone);
  EXPECT_EQ(spec.ropes[0].theta, 10000.0);
  EXPECT_EQ(spec.ropes[1].scaling, RopeScaling::kYarn);
  EXPECT_EQ(spec.ropes[1].theta, 160000.0);
  EXPECT_EQ(spec.ropes[1].attention_factor, 1.0);
  EXPECT_EQ(spec.ropes[1].rotary_dim, 8);
  EXPECT_FALSE(spec.ropes[1].backwards);
  EXPECT_TRUE(spec.ropes[3].backwards);
  // Sixteen tokens, of compressed keys as many places as kernels read at once; behind them the indexer's
  // four.
  EXPECT_EQ(kv_bytes_of(spec, spec.layers[0], DType::kBF16, 16), 16 * 32 * 2);
  EXPECT_EQ(kv_bytes_of(spec, spec.layers[1], DType::kBF16, 16), (32 * 32 + 4 * 16) * 2);
  EXPECT_EQ(kv_bytes_of(spec, spec.layers[2], DType::kBF16, 16), 32 * 32 * 2);
  // A block of 64 tokens has no empty ones.
  EXPECT_EQ(block_unit(spec, 16), 64);
  EXPECT_EQ(block_unit(spec, 2), 4);
  EXPECT_EQ(kv_bytes_of(spec, spec.layers[1], DType::kBF16, 64), (80 * 32 + 16 * 16) * 2);
}

TEST(CompressedAttention, RefusesWhatItCannotDo) {
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

TEST(WeightNames, PatternsMatchLayerNumbers) {
  EXPECT_EQ(with_number("h.{}.ln_1", 12), "h.12.ln_1");
  EXPECT_EQ(with_number("norm", 12), "norm");
  EXPECT_TRUE(matches_pattern("h.12.attn.bias", "h.{}.attn.bias"));
  EXPECT_FALSE(matches_pattern("h..attn.bias", "h.{}.attn.bias"));
  EXPECT_FALSE(matches_pattern("h.x.attn.bias", "h.{}.attn.bias"));
  EXPECT_FALSE(matches_pattern("h.1.attn.bias.x", "h.{}.attn.bias"));
  EXPECT_TRUE(matches_pattern("a", "a"));
  EXPECT_TRUE(matches_pattern("h.1.experts.6.up", "h.{}.experts.*"));
  EXPECT_FALSE(matches_pattern("h.1.expert", "h.{}.experts.*"));
}

}  // namespace
}  // namespace quire
