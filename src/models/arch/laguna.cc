// Laguna and Step-3.5: norms on query and key heads, a gate for each head, layers with a window that have
// other rotations and other numbers of heads, experts chosen by corrected sigmoids.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// Names of the hub's files, and those of transformers.
constexpr std::array<ModuleName, 5> kLaguna = {{
    {Role::kQueryGate, "layers.{}.self_attn.g_proj"},
    {.role = Role::kRouterCorrection,
     .module = "layers.{}.mlp.experts.e_score_correction_bias",
     .bare = true},
    {Role::kSharedExpertGate, "layers.{}.mlp.shared_expert.gate_proj"},
    {Role::kSharedExpertUp, "layers.{}.mlp.shared_expert.up_proj"},
    {Role::kSharedExpertDown, "layers.{}.mlp.shared_expert.down_proj"},
}};
constexpr auto kLagunaModules =
    joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kExperts, kDeepseekShared, kLaguna);

// By layer, how many heads of queries; the most of them become the model's.
void assign_heads(const ConfigReader& config, ArchSpec& spec, std::string_view field,
                  const std::vector<int64_t>& heads) {
  if (heads.size() != spec.layers.size())
    config.fail(field, cat("has ", heads.size(), " entries for ", spec.num_layers, " layers"));
  for (size_t i = 0; i < heads.size(); ++i) {
    if (heads[i] % spec.num_kv_heads != 0) {
      config.fail(field, cat("holds ", heads[i], ", which num_key_value_heads (", spec.num_kv_heads,
                             ") does not divide"));
    }
    spec.layers[i].num_heads = static_cast<int32_t>(heads[i]);
  }
  spec.num_heads = static_cast<int32_t>(std::ranges::max(heads));
}

}  // namespace

ArchSpec parse_laguna(const ConfigReader& config) {
  const bool usual_ropes = !config.has("rope_parameters");
  ArchSpec spec = parse_llama_family(
      config, {.head_dim = 128,
               .max_position_embeddings = 131072,
               .rope = {.theta = 5e5, .partial = true, .part = usual_ropes ? 0.5 : 1.0, .window_theta = 1e4},
               .intermediate_size = 8192});
  if (usual_ropes) {
    RopeSpec local;
    local.rotary_dim = spec.head_dim;
    spec.ropes.push_back(local);
  }
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.qk_norm = QkNorm::kHeads;
  spec.attention_gate = true;
  const nlohmann::json* gating = config.find("gating");
  const std::string kind = gating != nullptr && gating->is_string() ? gating->get<std::string>() : "per-head";
  if ((gating != nullptr && gating->is_boolean() && !gating->get<bool>()) ||
      (kind != "per-head" && kind != "per-element"))
    config.fail("gating", "other than true, per-head and per-element is not supported");
  (kind == "per-head" ? spec.attention_gate_heads : spec.attention_gate_apart) = true;
  spec.gate_activation = Activation::kSoftplus;

  if (config.has("num_attention_heads_per_layer")) {
    assign_heads(config, spec, "num_attention_heads_per_layer",
                 config.integers("num_attention_heads_per_layer", 1, 1 << 16));
  }
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 512));
  const auto second = static_cast<int32_t>(spec.ropes.size()) - 1;
  assign_windows(spec, sliding_layers(config, spec, 1), window, second, 0);

  if (config.boolean("moe_apply_router_weight_on_input", false))
    config.fail("moe_apply_router_weight_on_input", "true is not supported");
  if (config.number("moe_router_logit_softcapping", 0.0, 1e9, 0.0) != 0.0)
    config.fail("moe_router_logit_softcapping", "is not supported");
  MoeSpec& moe = read_sigmoid_experts(config, spec, {.default_experts = 256, .default_chosen = 8},
                                      "moe_routed_scaling_factor", 1.0, 0);
  moe.shared_intermediate_size = config.integer("shared_expert_intermediate_size", 1, kMaxSize, 512);
  assign_experts(config, spec, 1);
  return spec;
}

WeightNames laguna_weight_names() {
  return {kModelPrefixes, kLagunaModules, kSavedAngles};
}

}  // namespace quire
