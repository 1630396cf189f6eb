// Laguna and Step-3.5: QK norm per head, one output gate per head, sliding windows in layers with another
// RoPE and another number of heads, experts selected by sigmoid scores with a correction bias.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// Names in published checkpoints, and those that transformers writes.
constexpr std::array<TensorName, 5> kLaguna = {{
    {attention::kOutputGate, "layers.{}.self_attn.g_proj"},
    {.params = moe::kCorrectionBias, .module = "layers.{}.mlp.experts.e_score_correction_bias", .bare = true},
    {moe::kSharedGateProj, "layers.{}.mlp.shared_expert.gate_proj"},
    {moe::kSharedUpProj, "layers.{}.mlp.shared_expert.up_proj"},
    {moe::kSharedDownProj, "layers.{}.mlp.shared_expert.down_proj"},
}};
constexpr auto kLagunaModules =
    joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kMoeExperts, kDeepseekShared, kLaguna);

// Sets the number of query heads per layer.
void assign_heads(const ConfigReader& config, ModelSpec& spec, std::string_view field,
                  const std::vector<int64_t>& heads) {
  if (heads.size() != spec.layers.size())
    config.fail(field, cat("has ", heads.size(), " entries for ", spec.num_layers(), " layers"));
  for (size_t i = 0; i < heads.size(); ++i) {
    if (heads[i] % first_attention(spec).num_kv_heads != 0) {
      config.fail(field, cat("contains ", heads[i], ", which num_key_value_heads (",
                             first_attention(spec).num_kv_heads, ") does not divide"));
    }
    attention_of(spec.layers[i])->num_heads = static_cast<int32_t>(heads[i]);
  }
}

ModelSpec parse_laguna(const ConfigReader& config) {
  const bool default_ropes = !config.has("rope_parameters");
  ModelSpec spec = parse_llama_family(
      config,
      {.head_dim = 128,
       .max_position_embeddings = 131072,
       .rope = {.theta = 5e5, .partial = true, .part = default_ropes ? 0.5 : 1.0, .window_theta = 1e4},
       .intermediate_size = 8192});
  if (default_ropes) {
    RopeSpec local;
    local.rotary_dim = first_attention(spec).head_dim;
    spec.ropes.push_back(local);
  }
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_qk_norm(spec, QkNorm::kHeads);
  const nlohmann::json* gating = config.find("gating");
  const std::string kind = gating != nullptr && gating->is_string() ? gating->get<std::string>() : "per-head";
  if ((gating != nullptr && gating->is_boolean() && !gating->get<bool>()) ||
      (kind != "per-head" && kind != "per-element"))
    config.fail("gating", "other than true, per-head and per-element is not supported");
  set_all(spec, &AttentionSpec::gate_activation, Activation::kSoftplus);

  if (config.has("num_attention_heads_per_layer")) {
    assign_heads(config, spec, "num_attention_heads_per_layer",
                 config.integers("num_attention_heads_per_layer", 1, 1 << 16));
  }
  set_gates(spec, kind == "per-head");
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 512));
  const auto second = static_cast<int32_t>(spec.ropes.size()) - 1;
  assign_windows(spec, sliding_layers(config, spec, 1), window, second, 0);

  if (config.boolean("moe_apply_router_weight_on_input", false))
    config.fail("moe_apply_router_weight_on_input", "true is not supported");
  if (config.number("moe_router_logit_softcapping", 0.0, 1e9, 0.0) != 0.0)
    config.fail("moe_router_logit_softcapping", "is not supported");
  MoeSpec moe = read_sigmoid_experts(config, {.default_experts = 256, .default_chosen = 8},
                                     "moe_routed_scaling_factor", 1.0, 0);
  moe.shared_intermediate_size = config.integer("shared_expert_intermediate_size", 1, kMaxSize, 512);
  use_experts(spec, moe, sparse_layers(config, spec, 1));
  return spec;
}

WeightNames laguna_weight_names() {
  return {kModelPrefixes, kLagunaModules, kSavedAngles};
}

}  // namespace

std::span<const Architecture> laguna_architectures() {
  static constexpr std::array kRows = {
      Architecture{"LagunaForCausalLM", "laguna", parse_laguna, laguna_weight_names},
  };
  return kRows;
}

}  // namespace quire
