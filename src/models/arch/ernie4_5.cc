// ERNIE 4.5: Llama whose heads turn in pairs of neighbours; the larger ones with experts.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 2> kCorrection = {{
    {.role = Role::kRouterCorrection,
     .module = "layers.{}.mlp.moe_statics.e_score_correction_bias",
     .bare = true},
    {.role = Role::kRouterCorrection,
     .module = "layers.{}.mlp.gate.moe_statics.e_score_correction_bias",
     .bare = true},
}};
constexpr std::array<ModuleName, 3> kShared = {{
    {Role::kSharedExpertGate, "layers.{}.mlp.shared_experts.gate_proj"},
    {Role::kSharedExpertUp, "layers.{}.mlp.shared_experts.up_proj"},
    {Role::kSharedExpertDown, "layers.{}.mlp.shared_experts.down_proj"},
}};
constexpr auto kMoeModules = joined(kLlamaMatrices, kLlamaNorms, kExperts, kCorrection, kShared);
// Heads that draft further tokens.
constexpr std::array<std::string_view, 1> kMoeIgnored = {"mtp_*"};

ArchSpec parse_family(const ConfigReader& config, int32_t head_dim) {
  ArchSpec spec = parse_llama_family(config, {.head_dim = head_dim,
                                              .max_position_embeddings = 131072,
                                              .rope = {.theta = 500000.0, .style = RopeStyle::kInterleaved},
                                              .tie_word_embeddings = true});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = config.boolean("use_bias", false);
  return spec;
}

}  // namespace

ArchSpec parse_ernie4_5(const ConfigReader& config) {
  return parse_family(config, 128);
}

ArchSpec parse_ernie4_5_moe(const ConfigReader& config) {
  ArchSpec spec = parse_family(config, 0);
  spec.lm_head_bias = spec.mlp_bias;
  MoeSpec& moe = read_experts(
      config, spec,
      {.experts = "moe_num_experts", .chosen = "moe_k", .default_experts = 64, .default_chosen = 6});
  moe.router.normalize = true;
  moe.correction = true;
  moe.shared_intermediate_size = config.integer("moe_num_shared_experts", 0, 1024, 2) * moe.intermediate_size;
  const int64_t first = config.integer("moe_layer_start_index", 0, kMaxLayers, 1);
  const int64_t last = config.integer("moe_layer_end_index", -1, kMaxLayers, -1);
  const int64_t interval = config.integer("moe_layer_interval", 1, kMaxLayers, 1);
  for (int64_t i = 0; i < spec.num_layers; ++i) {
    spec.layers[static_cast<size_t>(i)].experts =
        (i + 1) % interval == 0 && i >= first && (last < 0 || i <= last);
  }
  return spec;
}

WeightNames ernie4_5_moe_weight_names() {
  return {kModelPrefixes, kMoeModules, kMoeIgnored, true};
}

}  // namespace quire
