// Parsing of config.json to a ModelSpec: the meaning of fields, and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/json_file.h"
#include "models/model_spec.h"
#include "models/registry.h"
#include "nn/rope.h"
#include "unit/models/config_testing.h"

namespace quire {
namespace {

using namespace test;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> windows(const ModelSpec& spec) {
  std::vector<int32_t> all;
  for (const LayerSpec& layer : spec.layers) all.push_back(attention_of(layer)->params.window);
  return all;
}

TEST(Arch, ReadsLlama) {
  const ModelSpec spec =
      parse_model(with(llama(), {{"bos_token_id", 1}, {"eos_token_id", {2, 3}}, {"mlp_bias", true}}));
  EXPECT_EQ(spec.architecture, "LlamaForCausalLM");
  EXPECT_EQ(spec.model_type, "llama");
  EXPECT_EQ(spec.vocab_size, 100);
  EXPECT_EQ(spec.hidden_size, 64);
  EXPECT_EQ(mlp_in(spec).intermediate_size, 96);
  EXPECT_EQ(spec.num_layers(), 3);
  EXPECT_EQ(attention_in(spec).num_heads, 8);
  EXPECT_EQ(attention_in(spec).num_kv_heads, 2);
  EXPECT_EQ(attention_in(spec).head_dim, 8);
  EXPECT_FLOAT_EQ(spec.norm.eps, 1e-5F);
  EXPECT_EQ(spec.max_position_embeddings, 512);
  EXPECT_EQ(spec.max_model_len, 512);
  EXPECT_DOUBLE_EQ(spec.ropes[0].theta, 5000.0);
  EXPECT_EQ(spec.ropes[0].rotary_dim, 8);
  EXPECT_EQ(spec.ropes[0].scaling, RopeScaling::kNone);
  EXPECT_TRUE(spec.tie_word_embeddings);
  EXPECT_TRUE(mlp_in(spec).bias);
  EXPECT_FALSE(attention_in(spec).qkv_bias);
  EXPECT_EQ(spec.bos_token_id, 1);
  EXPECT_THAT(spec.eos_token_ids, ElementsAre(2, 3));
  EXPECT_THAT(windows(spec), ElementsAre(0, 0, 0));
  EXPECT_FLOAT_EQ(attention_in(spec, 0).params.scale, 1.0F / std::sqrt(8.0F));
}

TEST(Arch, FieldsThatOldConfigurationsLackHaveDefaults) {
  json config = llama();
  for (const char* key : {"num_key_value_heads", "rope_theta", "tie_word_embeddings", "rms_norm_eps"})
    config.erase(key);
  const ModelSpec spec = parse_model(config);
  EXPECT_EQ(attention_in(spec).num_kv_heads, 8);
  EXPECT_EQ(attention_in(spec).head_dim, 8);
  EXPECT_DOUBLE_EQ(spec.ropes[0].theta, 10000.0);
  EXPECT_FALSE(spec.tie_word_embeddings);
  EXPECT_FLOAT_EQ(spec.norm.eps, 1e-6F);
  EXPECT_TRUE(spec.eos_token_ids.empty());
  EXPECT_FALSE(spec.bos_token_id.has_value());
}

TEST(Arch, NullCountsAsAbsent) {
  const ModelSpec spec = parse_model(
      with(llama(), {{"head_dim", nullptr}, {"rope_scaling", nullptr}, {"eos_token_id", nullptr}}));
  EXPECT_EQ(attention_in(spec).head_dim, 8);
}

TEST(Arch, WholeNumbersMayBeWrittenAsFractions) {
  EXPECT_EQ(parse_model(with(llama(), {{"max_position_embeddings", 512.0}})).max_position_embeddings, 512);
}

TEST(Arch, UsesModelTypeIfArchitecturesIsMissing) {
  EXPECT_EQ(parse_model(with(without(llama(), "architectures"), {{"model_type", "qwen2"}})).architecture,
            "Qwen2ForCausalLM");
}

TEST(Arch, IgnoresTokenIdsOutsideTheVocabulary) {
  EXPECT_THAT(parse_model(with(llama(), {{"eos_token_id", {-1, 99, 100}}})).eos_token_ids, ElementsAre(99));
}

TEST(Arch, RopeParametersOfTransformers5) {
  const ModelSpec spec = parse_model(
      with(without(llama(), "rope_theta"),
           {{"rope_parameters", {{"rope_type", "linear"}, {"rope_theta", 777.0}, {"factor", 3.0}}}}));
  EXPECT_DOUBLE_EQ(spec.ropes[0].theta, 777.0);
  EXPECT_EQ(spec.ropes[0].scaling, RopeScaling::kLinear);
  EXPECT_DOUBLE_EQ(spec.ropes[0].factor, 3.0);
  EXPECT_EQ(spec.max_model_len, 1536);
}

TEST(Arch, YarnExtendsTheContextLength) {
  const json scaling = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 512}};
  EXPECT_EQ(parse_model(with(llama(), {{"rope_scaling", scaling}})).max_model_len, 2048);
  // max_position_embeddings already includes the factor.
  EXPECT_EQ(parse_model(with(llama(), {{"rope_scaling", scaling}, {"max_position_embeddings", 2048}}))
                .max_model_len,
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
    const ModelSpec spec = parse_model(with(config, item["config"]));
    const auto expected = item["inverse_frequencies"].get<std::vector<float>>();
    const auto found = rope_inverse_frequencies(spec.ropes[0]);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 3e-7 * expected[i]) << i;
    EXPECT_NEAR(spec.ropes[0].attention_factor, item["attention_factor"].get<double>(), 1e-12);
  }
}

TEST(Arch, MistralHasItsWindowInEveryLayer) {
  EXPECT_THAT(windows(parse_model(of("MistralForCausalLM", {{"sliding_window", 128}}))),
              ElementsAre(128, 128, 128));
  EXPECT_THAT(windows(parse_model(of("MistralForCausalLM", {{"sliding_window", nullptr}}))),
              ElementsAre(0, 0, 0));
  EXPECT_THAT(windows(parse_model(of("MistralForCausalLM"))), ElementsAre(4096, 4096, 4096));
}

TEST(Arch, QwenWindowsAreOffUnlessUsed) {
  for (const char* name : {"Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    const json fields = {{"sliding_window", 32}, {"max_window_layers", 1}};
    EXPECT_THAT(windows(parse_model(of(name, fields))), ElementsAre(0, 0, 0));
    EXPECT_THAT(windows(parse_model(of(name, with(fields, {{"use_sliding_window", false}})))),
                ElementsAre(0, 0, 0));
    EXPECT_THAT(windows(parse_model(of(name, with(fields, {{"use_sliding_window", true}})))),
                ElementsAre(0, 32, 32));
    const json types = {"sliding_attention", "full_attention", "sliding_attention"};
    EXPECT_THAT(
        windows(parse_model(of(name, with(fields, {{"use_sliding_window", true}, {"layer_types", types}})))),
        ElementsAre(32, 0, 32));
    EXPECT_THAT(windows(parse_model(of(name, with(fields, {{"layer_types", types}})))), ElementsAre(0, 0, 0));
  }
}

TEST(Arch, QwenBiasesAndNorms) {
  const ModelSpec two = parse_model(of("Qwen2ForCausalLM"));
  EXPECT_TRUE(attention_in(two).qkv_bias);
  EXPECT_FALSE(attention_in(two).o_bias);
  EXPECT_EQ(attention_in(two).qk_norm, QkNorm::kNone);
  const ModelSpec three = parse_model(of("Qwen3ForCausalLM"));
  EXPECT_FALSE(attention_in(three).qkv_bias);
  EXPECT_EQ(attention_in(three).qk_norm, QkNorm::kHeads);
  EXPECT_EQ(attention_in(three).head_dim, 128);
  EXPECT_TRUE(attention_in(parse_model(of("Qwen3ForCausalLM", {{"attention_bias", true}}))).o_bias);
}

json gpt2() {
  return json{{"architectures", {"GPT2LMHeadModel"}},
              {"vocab_size", 100},
              {"n_embd", 48},
              {"n_layer", 2},
              {"n_head", 3},
              {"n_positions", 64}};
}

TEST(Arch, ExaoneWindowsFollowAPatternOfLetters) {
  const json config =
      of("Exaone4ForCausalLM",
         {{"num_hidden_layers", 6}, {"sliding_window", 8}, {"sliding_window_pattern", "LLG"}});
  EXPECT_THAT(windows(parse_model(config)), ElementsAre(8, 8, 0, 8, 8, 0));
  EXPECT_THAT(windows(parse_model(with(config, {{"sliding_window_pattern", "LLLG"}}))),
              ElementsAre(8, 8, 8, 0, 8, 0));  // the last layer has no window
  EXPECT_THAT(windows(parse_model(with(config, {{"sliding_window_pattern", 2}}))),
              ElementsAre(8, 0, 8, 0, 8, 0));
  const std::string local = "sliding_attention", global = "full_attention";
  EXPECT_THAT(
      windows(parse_model(with(config, {{"layer_types", {global, local, local, global, local, local}}}))),
      ElementsAre(0, 8, 8, 0, 8, 8));
  EXPECT_THAT(error_of(with(config, {{"sliding_window_pattern", "LXG"}})), HasSubstr("'LXG'"));
}

TEST(Arch, ReadsGpt2) {
  const ModelSpec spec = parse_model(with(gpt2(), {{"n_inner", nullptr}}));
  EXPECT_EQ(mlp_in(spec).intermediate_size, 192);
  EXPECT_EQ(attention_in(spec).head_dim, 16);
  EXPECT_EQ(spec.position, PositionKind::kLearned);
  EXPECT_EQ(spec.norm.kind, NormKind::kLayer);
  EXPECT_EQ(mlp_in(spec).activation, Activation::kGeluTanh);
  EXPECT_TRUE(spec.tie_word_embeddings);
  EXPECT_EQ(spec.max_model_len, 64);
  EXPECT_FLOAT_EQ(attention_in(spec, 1).params.scale, 0.25F);
  const ModelSpec plain = parse_model(with(gpt2(), {{"scale_attn_weights", false}}));
  EXPECT_FLOAT_EQ(attention_in(plain, 1).params.scale, 1.0F);
  const ModelSpec by_layer = parse_model(with(gpt2(), {{"scale_attn_by_inverse_layer_idx", true}}));
  EXPECT_FLOAT_EQ(attention_in(by_layer, 1).params.scale, 0.125F);
}

TEST(Arch, CountsExpertsUnderAnyOfTheNames) {
  const json moe = {{"moe_intermediate_size", 16}, {"num_experts_per_tok", 2}};
  for (const char* field : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    const ModelSpec spec = parse_model(with(of("Qwen3MoeForCausalLM", moe), {{field, 6}}));
    EXPECT_EQ(spec.layers[0].feed_forward.moe->num_experts, 6) << field;
  }
}

TEST(Arch, ReadsGemma4AsTransformers5SavesIt) {
  const json own = {{"head_dim", 8},
                    {"sliding_window", 4},
                    {"attention_k_eq_v", true},
                    {"layer_types", {"sliding_attention", "sliding_attention", "full_attention"}}};
  const json gemma = with(of("Gemma4ForCausalLM"), own);
  const ModelSpec once =
      parse_model(with(gemma, {{"global_head_dim", 16}, {"num_global_key_value_heads", 1}}));
  const json full = {{"head_dim", 16}, {"num_key_value_heads", 1}};
  const ModelSpec by_layer = parse_model(with(gemma, {{"per_layer_config", {{"2", full}}}}));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(attention_in(by_layer, i).head_dim, i == 2 ? 16 : 8);
    EXPECT_EQ(attention_in(by_layer, i).head_dim, attention_in(once, i).head_dim);
    EXPECT_EQ(attention_in(by_layer, i).num_kv_heads, attention_in(once, i).num_kv_heads);
  }
  EXPECT_EQ(by_layer.ropes.front().rotary_dim, once.ropes.front().rotary_dim);
  EXPECT_THAT(error_of(with(gemma, {{"per_layer_config", {{"1", full}, {"2", full}}}})),
              HasSubstr("'per_layer_config.1' has heads of another kind"));
}

TEST(Arch, MiniCpmScalesEmbeddingsResidualsAndLogits) {
  const ModelSpec spec =
      parse_model(of("MiniCPMForCausalLM",
                     {{"scale_emb", 12}, {"scale_depth", 1.4}, {"dim_model_base", 16}, {"hidden_size", 64}}));
  EXPECT_FLOAT_EQ(spec.embedding_multiplier, 12.0F);
  EXPECT_FLOAT_EQ(spec.layers[0].mixer_branch.multiplier,
                  1.4F / std::sqrt(static_cast<float>(spec.num_layers())));
  EXPECT_FLOAT_EQ(spec.logit_scale, 0.25F);
}

TEST(Arch, ReportsUnknownArchitecturesWithTheSupportedOnes) {
  const std::string error = error_of(of("Gemma9ForCausalLM"));
  EXPECT_THAT(
      error,
      HasSubstr("config.json: architecture 'Gemma9ForCausalLM' is not supported; the closest supported one "
                "is Gemma"));
  for (const Architecture& known : architectures()) EXPECT_THAT(error, HasSubstr(known.name));
  EXPECT_THAT(error_of(with(without(llama(), "architectures"), {{"model_type", "foo"}})),
              HasSubstr("model_type 'foo'"));
  EXPECT_THAT(error_of(without(llama(), "architectures")), HasSubstr("'architectures' is missing"));
  EXPECT_THAT(error_of(json::array()), HasSubstr("not a JSON object"));
  // Comparing a name of a megabyte with the supported ones would take seconds.
  EXPECT_THAT(error_of(of(std::string(1'000'000, 'x'))), HasSubstr("'" + std::string(200, 'x') + "' is"));
}

struct BadField {
  const char* field;
  json value;
  const char* message;
};

TEST(Arch, ErrorsNameInvalidFields) {
  const double nan = std::nan("");
  const std::vector<BadField> cases = {
      {"vocab_size", 0, "'vocab_size' is 0, but must be between 1 and"},
      {"vocab_size", -5, "'vocab_size' is -5"},
      {"vocab_size", "x", "'vocab_size' must be an integer, but is \"x\""},
      {"vocab_size", 1.5, "'vocab_size' must be an integer"},
      {"vocab_size", nan, "'vocab_size' must be an integer"},
      {"vocab_size", 1e300, "'vocab_size' must be an integer"},
      {"vocab_size", UINT64_MAX, "'vocab_size' must be an integer"},
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
      {"architectures", {1}, "'architectures' must contain strings"},
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
       "'rope_scaling.short_factor' must contain numbers"},
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
      HasSubstr("'layer_types' contains 'a'"));
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

TEST(Zamba2, AlternatesBetweenItsSharedBlocks) {
  const json four =
      zamba2({{"num_hidden_layers", 5},
              {"layers_block_type", {"hybrid", "linear_attention", "hybrid", "hybrid", "hybrid"}},
              {"num_mem_blocks", 2}});
  const ModelSpec spec = parse_model(four);
  std::vector<int32_t> sources;
  std::vector<int32_t> uses;
  for (const LayerSpec& layer : spec.layers) {
    EXPECT_TRUE(std::holds_alternative<MambaSpec>(layer.mixer));
    sources.push_back(layer.shared_block ? layer.shared_block->owner : -1);
    if (layer.shared_block) uses.push_back(layer.shared_block->use);
  }
  EXPECT_THAT(sources, ElementsAre(0, -1, 2, 0, 2));
  EXPECT_THAT(uses, ElementsAre(0, 1, 2, 3));
  // All heads together have the width of the hidden states and the token embeddings.
  EXPECT_EQ(attention_in(spec).head_dim, 16);
  EXPECT_FLOAT_EQ(attention_in(spec, 0).params.scale, static_cast<float>(1.0 / std::sqrt(8.0)));
  EXPECT_TRUE(spec.ropes.empty());
  EXPECT_EQ(spec.max_model_len, 512);
  EXPECT_EQ(parse_model(zamba2({{"use_mem_rope", true}, {"use_long_context", true}})).max_model_len, 16384);
}

TEST(Zamba2, RejectsUnsupportedFields) {
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
