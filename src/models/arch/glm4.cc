// GLM-4: Llama with a fused gate_up_proj and interleaved RoPE on half of each head. The 0414 models (Glm4)
// also have norms after attention and MLP. GLM-4.5 and later (Glm4Moe) have experts and NeoX-style RoPE on
// half of each head. Kolibri 1 has GLM-4's norms, experts in all layers, and no RoPE in layers with full
// attention.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 2> kGateUpMlp = {{
    {kGateUpParams, "layers.{}.mlp.gate_up_proj"},
    {mlp::kDownProj, "layers.{}.mlp.down_proj"},
}};
constexpr std::array<TensorName, 2> kGlmPostNorms = {{
    {layer::kPostAttentionNorm, "layers.{}.post_self_attn_layernorm"},
    {layer::kPostMlpNorm, "layers.{}.post_mlp_layernorm"},
}};
constexpr auto kGlm4Modules = joined(kLlamaAttention, kFinalNorm, kGateUpMlp, kLlamaNorms, kGlmPostNorms);
// Names in published checkpoints that differ from those of transformers.
constexpr std::array<TensorName, 3> kKolibri = {{
    {layer::kPostAttentionNorm, "layers.{}.post_attn_norm"},
    {layer::kPostMlpNorm, "layers.{}.post_ffn_norm"},
    {.params = moe::kCorrectionBias, .module = "layers.{}.moe.router.expert_bias", .bare = true},
}};
constexpr auto kKolibriModules =
    joined(kLlamaMatrices, kLlamaNorms, kGlmPostNorms, kQkNorms, kMoeExperts, kDeepseekShared, kKolibri);
constexpr auto kGlm4MoeModules = joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kMoeExperts, kDeepseekShared);

ModelSpec parse_glm(const ConfigReader& config) {
  ModelSpec spec =
      parse_llama_family(config, {.head_dim = 128,
                                  .max_position_embeddings = 131072,
                                  .rope = {.style = RopeStyle::kInterleaved, .partial = true, .part = 0.5},
                                  .norm_eps = 1.5625e-7});
  set_all(spec, &AttentionSpec::qkv_bias, config.boolean("attention_bias", true));
  return spec;
}

ModelSpec parse_glm4(const ConfigReader& config) {
  ModelSpec spec = parse_glm(config);
  place_norms(spec, NormPlace::kBoth);
  return spec;
}

ModelSpec parse_glm_ocr(const ConfigReader& config) {
  ModelSpec spec = parse_glm4(config);
  set_all(spec, &AttentionSpec::qkv_bias, false);
  return spec;
}

ModelSpec parse_glm4_moe(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(
      config, {.max_position_embeddings = 131072, .rope = {.partial = true, .part = 0.5}, .norm_eps = 1e-5});
  set_all(spec, &AttentionSpec::qkv_bias, config.boolean("attention_bias", false));
  set_qk_norm(spec, config.boolean("use_qk_norm", false) ? QkNorm::kHeads : QkNorm::kNone);
  const MoeSpec moe = read_deepseek_experts(config);
  use_experts(spec, moe, layers_from(spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 0)));
  return spec;
}

ModelSpec parse_kolibri1(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.head_dim = 128,
                                               .max_position_embeddings = 262144,
                                               .intermediate_size = 1});  // no layer has a dense MLP
  place_norms(spec, NormPlace::kBoth);
  set_qk_norm(spec, QkNorm::kHeads);
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 513));
  assign_windows(spec, sliding_layers(config, spec, 5), window, 0, kNoRope);
  MoeSpec moe = read_experts(config, {.default_experts = 384, .default_chosen = 6});
  moe.router.scoring_func = ScoringFunc::kChosenSigmoid;
  moe.router.norm_topk_prob = config.boolean("norm_topk_prob", false);
  moe.e_score_correction_bias = true;
  moe.shared_intermediate_size = config.integer("shared_expert_intermediate_size", 1, kMaxSize, 512);
  use_experts(spec, moe);
  return spec;
}

ModelSpec parse_solar_open(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.head_dim = 128,
                                               .max_position_embeddings = 131072,
                                               .rope = {.theta = 1e6, .partial = true},
                                               .norm_eps = 1e-5});
  set_all(spec, &AttentionSpec::qkv_bias, config.boolean("attention_bias", false));
  const MoeSpec moe = read_deepseek_experts(config);
  use_experts(spec, moe, layers_from(spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 0)));
  return spec;
}

WeightNames glm_weight_names() {
  return {kModelPrefixes, kGlm4Modules, kSavedAngles};
}
WeightNames kolibri1_weight_names() {
  return {kModelPrefixes, kKolibriModules, kSavedAngles};
}
WeightNames glm_ocr_weight_names() {
  return {kModelPrefixes, kGlm4Modules, kSavedAngles, true};
}
WeightNames glm4_moe_weight_names() {
  return {kModelPrefixes, kGlm4MoeModules, {}, true};
}

}  // namespace

std::span<const Architecture> glm4_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Glm4ForCausalLM", "glm4", parse_glm4, glm_weight_names},
      Architecture{"Glm4MoeForCausalLM", "glm4_moe", parse_glm4_moe, glm4_moe_weight_names},
      Architecture{"GlmForCausalLM", "glm", parse_glm, glm_weight_names},
      Architecture{"GlmOcrForCausalLM", "glm_ocr_text", parse_glm_ocr, glm_ocr_weight_names},
      Architecture{"Kolibri1ForCausalLM", "kolibri1", parse_kolibri1, kolibri1_weight_names},
      Architecture{"SolarOpenForCausalLM", "solar_open", parse_solar_open, glm4_moe_weight_names},
  };
  return kRows;
}

}  // namespace quire
