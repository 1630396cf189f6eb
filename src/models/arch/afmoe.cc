// AFMoE (Arcee Trinity): Llama with norms before and after attention and MLP, attention output gates, and
// experts selected by sigmoid scores with a correction bias. Only layers with a sliding window have RoPE.
#include <cmath>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 10> kAfmoeOwn = {{
    {attention::kOutputGate, "layers.{}.self_attn.gate_proj"},
    {layer::kInputNorm, "layers.{}.input_layernorm"},
    {layer::kPostAttentionNorm, "layers.{}.post_attention_layernorm"},
    {layer::kMlpNorm, "layers.{}.pre_mlp_layernorm"},
    {layer::kPostMlpNorm, "layers.{}.post_mlp_layernorm"},
    {moe::kRouter, "layers.{}.mlp.router.gate"},
    {.params = moe::kCorrectionBias, .module = "layers.{}.mlp.expert_bias", .bare = true},
    {moe::kSharedGateProj, "layers.{}.mlp.shared_experts.gate_proj"},
    {moe::kSharedUpProj, "layers.{}.mlp.shared_experts.up_proj"},
    {moe::kSharedDownProj, "layers.{}.mlp.shared_experts.down_proj"},
}};
constexpr auto kAfmoeModules = joined(kLlamaMatrices, kQkNorms, kMoeExperts, kAfmoeOwn);

ModelSpec parse_afmoe(const ConfigReader& config) {
  ModelSpec spec =
      parse_llama_family(config, {.head_dim = 128, .max_position_embeddings = 16384, .norm_eps = 1e-5});
  if (config.boolean("attention_bias", false)) config.fail("attention_bias", "true is not supported");
  place_norms(spec, NormPlace::kBoth);
  set_qk_norm(spec, QkNorm::kHeads);
  set_gates(spec, false);
  if (config.boolean("mup_enabled", false))
    spec.embedding_multiplier = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden_size)));
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 1024));
  const int64_t every = config.integer("global_attn_every_n_layers", 1, kMaxLayers, 4);
  assign_windows(spec, sliding_layers(config, spec, every), window, 0, kNoRope);

  if (config.text("score_func", "sigmoid") != "sigmoid")
    config.fail("score_func", "other than sigmoid is not supported");
  for (const char* field : {"n_group", "num_expert_groups"}) {
    if (config.integer(field, 1, kMaxExperts, 1) != 1) config.fail(field, "other than 1 is not supported");
  }
  const MoeSpec moe =
      read_sigmoid_experts(config, {.default_experts = 64, .default_chosen = 6}, "route_scale", 1.0, 2);
  use_experts(spec, moe, sparse_layers(config, spec, config.integer("num_dense_layers", 0, kMaxLayers, 1)));
  return spec;
}

WeightNames afmoe_weight_names() {
  return {kModelPrefixes, kAfmoeModules, kSavedAngles};
}

}  // namespace

std::span<const Architecture> afmoe_architectures() {
  static constexpr std::array kRows = {
      Architecture{"AfmoeForCausalLM", "afmoe", parse_afmoe, afmoe_weight_names},
  };
  return kRows;
}

}  // namespace quire
