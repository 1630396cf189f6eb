// GLM-4: Llama with gates and ups in one matrix, of whose heads half turns in pairs of neighbours. The 0414
// models (Glm4) also norm what attention and MLP give. GLM-4.5 and later (Glm4Moe) have experts, and half of
// a head turns in halves. Kolibri 1 has GLM-4's norms, experts in all layers, and layers that see everything
// do not turn.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 2> kGateUpMlp = {{
    {Role::kGateUp, "layers.{}.mlp.gate_up_proj"},
    {Role::kDown, "layers.{}.mlp.down_proj"},
}};
constexpr std::array<ModuleName, 2> kGlmPostNorms = {{
    {Role::kPostAttentionNorm, "layers.{}.post_self_attn_layernorm"},
    {Role::kPostMlpNorm, "layers.{}.post_mlp_layernorm"},
}};
constexpr auto kModules = joined(kLlamaAttention, kFinalNorm, kGateUpMlp, kLlamaNorms, kGlmPostNorms);
// As the hub's files call what transformers calls otherwise.
constexpr std::array<ModuleName, 3> kKolibri = {{
    {Role::kPostAttentionNorm, "layers.{}.post_attn_norm"},
    {Role::kPostMlpNorm, "layers.{}.post_ffn_norm"},
    {.role = Role::kRouterCorrection, .module = "layers.{}.moe.router.expert_bias", .bare = true},
}};
constexpr auto kKolibriModules =
    joined(kLlamaMatrices, kLlamaNorms, kGlmPostNorms, kQkNorms, kExperts, kDeepseekShared, kKolibri);
constexpr auto kMoeModules = joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kExperts, kDeepseekShared);

}  // namespace

ArchSpec parse_glm(const ConfigReader& config) {
  ArchSpec spec =
      parse_llama_family(config, {.head_dim = 128,
                                  .max_position_embeddings = 131072,
                                  .rope = {.style = RopeStyle::kInterleaved, .partial = true, .part = 0.5}});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1.5625e-7));
  spec.qkv_bias = config.boolean("attention_bias", true);
  return spec;
}

ArchSpec parse_glm4(const ConfigReader& config) {
  ArchSpec spec = parse_glm(config);
  spec.post_norms = true;
  return spec;
}

ArchSpec parse_glm_ocr(const ConfigReader& config) {
  ArchSpec spec = parse_glm4(config);
  spec.qkv_bias = false;
  return spec;
}

ArchSpec parse_glm4_moe(const ConfigReader& config) {
  ArchSpec spec =
      parse_llama_family(config, {.max_position_embeddings = 131072, .rope = {.partial = true, .part = 0.5}});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = config.boolean("attention_bias", false);
  spec.qk_norm = config.boolean("use_qk_norm", false) ? QkNorm::kHeads : QkNorm::kNone;
  read_deepseek_experts(config, spec);
  return spec;
}

ArchSpec parse_kolibri1(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.head_dim = 128,
                                              .max_position_embeddings = 262144,
                                              .intermediate_size = 1});  // no layer has an MLP of its own
  spec.post_norms = true;
  spec.qk_norm = QkNorm::kHeads;
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 513));
  assign_windows(spec, sliding_layers(config, spec, 5), window, 0, kNoRope);
  MoeSpec& moe = read_experts(config, spec, {.default_experts = 384, .default_chosen = 6});
  moe.router.scores = RouterScores::kChosenSigmoid;
  moe.router.normalize = config.boolean("norm_topk_prob", false);
  moe.correction = true;
  moe.shared_intermediate_size = config.integer("shared_expert_intermediate_size", 1, kMaxSize, 512);
  return spec;
}

ArchSpec parse_solar_open(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(
      config, {.head_dim = 128, .max_position_embeddings = 131072, .rope = {.theta = 1e6, .partial = true}});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = config.boolean("attention_bias", false);
  read_deepseek_experts(config, spec);
  return spec;
}

WeightNames glm_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles};
}
WeightNames kolibri1_weight_names() {
  return {kModelPrefixes, kKolibriModules, kSavedAngles};
}
WeightNames glm_ocr_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles, true};
}
WeightNames glm4_moe_weight_names() {
  return {kModelPrefixes, kMoeModules, {}, true};
}

}  // namespace quire
