// EXAONE 4: no norms before attention and MLP, but of what they give; norms on query and key heads. Where it
// has windows, only the layers with them turn positions in. K-EXAONE (ExaoneMoe): norms before attention and
// experts as DeepSeek-V3's.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kModules = joined(kLlamaMatrices, kPostNorms, kQkNorms);
constexpr std::array<ModuleName, 1> kCorrection = {
    {{.role = Role::kRouterCorrection, .module = "layers.{}.mlp.e_score_correction_bias", .bare = true}}};
constexpr auto kMoeModules =
    joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kExperts, kDeepseekShared, kCorrection);

ArchSpec parse_family(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.qk_norm = QkNorm::kHeads;
  const auto window = static_cast<int32_t>(
      config.integer("sliding_window", 1, kMaxPositions, config.mentions("sliding_window") ? 0 : 4096));
  if (window == 0) return spec;
  const auto sliding = sliding_layers(config, spec, config.integer("sliding_window_pattern", 1, 1024, 4));
  assign_windows(spec, sliding, window, 0, kNoRope);
  return spec;
}

}  // namespace

ArchSpec parse_exaone4(const ConfigReader& config) {
  ArchSpec spec = parse_family(config);
  spec.input_norm = spec.mlp_norm = false;
  spec.post_norms = true;
  return spec;
}

ArchSpec parse_exaone_moe(const ConfigReader& config) {
  ArchSpec spec = parse_family(config);
  MoeSpec& moe =
      read_deepseek_experts(config, spec, {.default_experts = 64, .default_chosen = 8}, "num_shared_experts");
  moe.router.scale = static_cast<float>(config.number("routed_scaling_factor", -1e6, 1e6, 2.5));
  assign_experts(config, spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 1));
  return spec;
}

WeightNames exaone4_weight_names() {
  return {kModelPrefixes, kModules, {}};
}
WeightNames exaone_moe_weight_names() {
  return {kModelPrefixes, kMoeModules, kDrafts, true};
}

}  // namespace quire
