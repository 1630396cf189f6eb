// Hunyuan, dense and with experts: Llama with QK norm after RoPE. Hy3 has QK norm before RoPE, and experts
// selected by sigmoid scores with a correction bias.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 2> kNorms = {{
    {attention::kQNorm, "layers.{}.self_attn.query_layernorm"},
    {attention::kKNorm, "layers.{}.self_attn.key_layernorm"},
}};
constexpr std::array<TensorName, 4> kHunyuanOwn = {{
    {moe::kRouter, "layers.{}.mlp.gate.wg"},
    {moe::kSharedGateProj, "layers.{}.mlp.shared_mlp.gate_proj"},
    {moe::kSharedUpProj, "layers.{}.mlp.shared_mlp.up_proj"},
    {moe::kSharedDownProj, "layers.{}.mlp.shared_mlp.down_proj"},
}};
constexpr auto kDenseModules = joined(kLlamaMatrices, kLlamaNorms, kNorms);
constexpr auto kHunyuanMoeModules = joined(kLlamaMatrices, kLlamaNorms, kNorms, kMoeExperts, kHunyuanOwn);
// Names in published checkpoints, and those that transformers writes, if they differ from other
// architectures.
constexpr std::array<TensorName, 9> kHy3Own = {{
    {moe::kRouter, "layers.{}.mlp.router.gate"},
    {.params = moe::kCorrectionBias, .module = "layers.{}.mlp.expert_bias", .bare = true},
    {.params = moe::kCorrectionBias, .module = "layers.{}.mlp.e_score_correction_bias", .bare = true},
    {moe::kSharedGateProj, "layers.{}.mlp.shared_mlp.gate_proj"},
    {moe::kSharedUpProj, "layers.{}.mlp.shared_mlp.up_proj"},
    {moe::kSharedDownProj, "layers.{}.mlp.shared_mlp.down_proj"},
    {moe::kSharedGateProj, "layers.{}.mlp.shared_experts.gate_proj"},
    {moe::kSharedUpProj, "layers.{}.mlp.shared_experts.up_proj"},
    {moe::kSharedDownProj, "layers.{}.mlp.shared_experts.down_proj"},
}};
constexpr auto kHy3Modules = joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kMoeExperts, kHy3Own);

// A number, or a list with the same number for each layer.
int64_t same_for_all(const ConfigReader& config, std::string_view field, int64_t fallback) {
  if (!config.has(field) || !config.find(field)->is_array())
    return config.integer(field, 1, kMaxSize, fallback);
  const auto values = config.integers(field, 1, kMaxSize);
  for (const int64_t value : values) {
    if (value != values.front()) config.fail(field, "differs from layer to layer, which is not supported");
  }
  if (values.empty()) config.fail(field, "is empty");
  return values.front();
}

ModelSpec parse_hunyuan_dense(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.norm_eps = 1e-5});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_qk_norm(spec, QkNorm::kHeads);
  set_all(spec, &AttentionSpec::qk_norm_after_rope, true);
  return spec;
}

ModelSpec parse_hunyuan_moe(const ConfigReader& config) {
  ModelSpec spec = parse_hunyuan_dense(config);
  MoeSpec moe;
  moe.num_experts = static_cast<int32_t>(same_for_all(config, "num_experts", 1));
  moe.router.num_experts_per_tok = static_cast<int32_t>(same_for_all(config, "moe_topk", 1));
  if (moe.num_experts > kMaxExperts) config.fail("num_experts", "is too large");
  if (moe.router.num_experts_per_tok > moe.num_experts) config.fail("moe_topk", "is more than num_experts");
  moe.router.norm_topk_prob = true;
  moe.intermediate_size = moe.shared_intermediate_size = first_mlp(spec).intermediate_size;
  use_experts(spec, moe);
  return spec;
}

ModelSpec parse_hy_v3(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(
      config,
      {.head_dim = 128, .max_position_embeddings = 131072, .rope = {.theta = 11158840.0}, .norm_eps = 1e-5});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_all(spec, &MlpSpec::bias, config.boolean("mlp_bias", false));
  set_qk_norm(spec, QkNorm::kHeads);
  const MoeSpec moe = read_sigmoid_experts(config, {.default_experts = 192, .default_chosen = 8},
                                           "router_scaling_factor", 2.826, 1);
  use_experts(spec, moe,
              sparse_layers(config, spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 1)));
  return spec;
}

WeightNames hunyuan_dense_weight_names() {
  return {kModelPrefixes, kDenseModules, kSavedAngles};
}
WeightNames hunyuan_moe_weight_names() {
  return {kModelPrefixes, kHunyuanMoeModules, kSavedAngles};
}
WeightNames hy_v3_weight_names() {
  return {kModelPrefixes, kHy3Modules, {}, true};
}

}  // namespace

std::span<const Architecture> hunyuan_architectures() {
  static constexpr std::array kRows = {
      Architecture{"HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", parse_hunyuan_dense,
                   hunyuan_dense_weight_names},
      Architecture{"HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe", parse_hunyuan_moe, hunyuan_moe_weight_names},
      Architecture{"HYV3ForCausalLM", "hy_v3", parse_hy_v3, hy_v3_weight_names},
  };
  return kRows;
}

}  // namespace quire
