// Command R: attention and MLP side by side behind one LayerNorm without bias, pairs of neighbouring
// dimensions turn, scaled logits. Command R7B (Cohere2): layers with a window turn positions in, those that
// see everything do not.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 1> kOneNorm = {{{Role::kInputNorm, "layers.{}.input_layernorm"}}};
constexpr auto kModules = joined(kLlamaMatrices, kOneNorm, kQkNorms);

ArchSpec parse_family(const ConfigReader& config, double theta) {
  ArchSpec spec = parse_llama_family(config, {.max_position_embeddings = 8192,
                                              .rope = {.theta = theta, .style = RopeStyle::kInterleaved},
                                              .tie_word_embeddings = true});
  // Command R+: each head has weights of its own.
  if (config.boolean("use_qk_norm", false)) spec.qk_norm = QkNorm::kEachHead;
  spec.qk_norm_kind = NormKind::kLayer;
  spec.norm = NormKind::kLayer;
  spec.norm_eps = static_cast<float>(config.number("layer_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.parallel_residual = true;
  spec.mlp_norm = false;
  spec.logit_scale = static_cast<float>(config.number("logit_scale", -1e9, 1e9, 0.0625));
  return spec;
}

}  // namespace

ArchSpec parse_cohere(const ConfigReader& config) {
  return parse_family(config, 500000.0);
}

ArchSpec parse_cohere2(const ConfigReader& config) {
  ArchSpec spec = parse_family(config, 10000.0);
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 4096));
  const auto sliding = sliding_layers(config, spec, config.integer("sliding_window_pattern", 1, 1024, 4));
  assign_windows(spec, sliding, window, 0, kNoRope);
  return spec;
}

WeightNames cohere_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles};
}

}  // namespace quire
