// OLMo 2, 3 and FlexOlmo: norms after attention and MLP instead of before, QK norm over the full projections.
// OLMo 3 has sliding windows in three of four layers, which do not use RoPE scaling.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kOlmo2Modules = joined(kLlamaMatrices, kPostNorms, kQkNorms);
constexpr auto kFlexModules = joined(kLlamaMatrices, kPostNorms, kQkNorms, kMoeExperts);

ModelSpec parse_olmo2_family(const ConfigReader& config, const RopeDefaults& rope) {
  ModelSpec spec = parse_llama_family(config, {.rope = rope, .norm_eps = 1e-5});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  place_norms(spec, NormPlace::kAfter);
  set_qk_norm(spec, QkNorm::kFullProjection);
  return spec;
}

ModelSpec parse_olmo2(const ConfigReader& config) {
  return parse_olmo2_family(config, {});
}

ModelSpec parse_olmo3(const ConfigReader& config) {
  ModelSpec spec = parse_olmo2_family(config, {.theta = 500000.0, .window_theta = 500000.0});
  if (spec.ropes.size() == 1) {
    RopeSpec unstretched;
    unstretched.theta = spec.ropes.front().theta;
    unstretched.rotary_dim = first_attention(spec).head_dim;
    spec.ropes.push_back(unstretched);
  }
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 4096));
  assign_windows(spec, sliding_layers(config, spec, 4), window, 1, 0);
  return spec;
}

ModelSpec parse_flex_olmo(const ConfigReader& config) {
  ModelSpec spec = parse_olmo2_family(config, {.theta = 500000.0});
  read_norm_eps(config, spec, "rms_norm_eps", 1e-6);
  MoeSpec moe =
      read_experts(config, {.intermediate = "intermediate_size", .default_experts = 7, .default_chosen = 5});
  moe.router.norm_topk_prob = config.boolean("norm_topk_prob", false);
  use_experts(spec, moe);
  return spec;
}

WeightNames flex_olmo_weight_names() {
  return {kModelPrefixes, kFlexModules, kSavedAngles};
}
WeightNames olmo2_weight_names() {
  return {kModelPrefixes, kOlmo2Modules, kSavedAngles};
}

}  // namespace

std::span<const Architecture> olmo2_architectures() {
  static constexpr std::array kRows = {
      Architecture{"FlexOlmoForCausalLM", "flex_olmo", parse_flex_olmo, flex_olmo_weight_names},
      Architecture{"Olmo2ForCausalLM", "olmo2", parse_olmo2, olmo2_weight_names},
      Architecture{"Olmo3ForCausalLM", "olmo3", parse_olmo3, olmo2_weight_names},
  };
  return kRows;
}

}  // namespace quire
