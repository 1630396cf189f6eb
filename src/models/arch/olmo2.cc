// OLMo 2, 3 and FlexOlmo: no norms before attention and MLP, but of what they give; RMS norms over all
// queries and all keys. OLMo 3 has windows in three layers of four; there positions turn unstretched.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kModules = joined(kLlamaMatrices, kPostNorms, kQkNorms);
constexpr auto kFlexModules = joined(kLlamaMatrices, kPostNorms, kQkNorms, kExperts);

ArchSpec parse_family(const ConfigReader& config, const RopeDefaults& rope) {
  ArchSpec spec = parse_llama_family(config, {.rope = rope});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.input_norm = spec.mlp_norm = false;
  spec.post_norms = true;
  spec.qk_norm = QkNorm::kWhole;
  return spec;
}

}  // namespace

ArchSpec parse_olmo2(const ConfigReader& config) {
  return parse_family(config, {});
}

ArchSpec parse_olmo3(const ConfigReader& config) {
  ArchSpec spec = parse_family(config, {.theta = 500000.0, .window_theta = 500000.0});
  if (spec.ropes.size() == 1) {
    RopeSpec unstretched;
    unstretched.theta = spec.ropes.front().theta;
    unstretched.rotary_dim = spec.head_dim;
    spec.ropes.push_back(unstretched);
  }
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 4096));
  assign_windows(spec, sliding_layers(config, spec, 4), window, 1, 0);
  return spec;
}

ArchSpec parse_flex_olmo(const ConfigReader& config) {
  ArchSpec spec = parse_family(config, {.theta = 500000.0});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-6));
  MoeSpec& moe = read_experts(
      config, spec, {.intermediate = "intermediate_size", .default_experts = 7, .default_chosen = 5});
  moe.router.normalize = config.boolean("norm_topk_prob", false);
  return spec;
}

WeightNames flex_olmo_weight_names() {
  return {kModelPrefixes, kFlexModules, kSavedAngles};
}
WeightNames olmo2_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles};
}

}  // namespace quire
