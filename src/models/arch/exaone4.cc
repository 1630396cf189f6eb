// EXAONE 4: no norms before attention and MLP, but of what they give; norms on query and key heads. Where it
// has windows, only the layers with them turn positions in.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kModules = joined(kLlamaMatrices, kPostNorms, kQkNorms);

}  // namespace

ArchSpec parse_exaone4(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.input_norm = spec.mlp_norm = false;
  spec.post_norms = true;
  spec.qk_norm = QkNorm::kHeads;
  const auto window = static_cast<int32_t>(
      config.integer("sliding_window", 1, kMaxPositions, config.mentions("sliding_window") ? 0 : 4096));
  if (window == 0) return spec;
  const auto sliding = sliding_layers(config, spec, config.integer("sliding_window_pattern", 1, 1024, 4));
  assign_windows(spec, sliding, window, 0, kNoRope);
  return spec;
}

WeightNames exaone4_weight_names() {
  return {kModelPrefixes, kModules, {}};
}

}  // namespace quire
