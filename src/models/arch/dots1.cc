// dots.llm1: Llama with norms on query and key heads, and experts as DeepSeek-V3 chooses them.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kModules = joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kExperts, kDeepseekShared);

}  // namespace

ArchSpec parse_dots1(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {});
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.qk_norm = QkNorm::kHeads;
  const int64_t default_window = config.mentions("sliding_window") ? 0 : 4096;
  const auto window =
      static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, default_window));
  const int64_t first = config.integer("max_window_layers", 0, kMaxLayers, 62);
  const auto by_type = sliding_layers(config, spec, 1);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const bool sliding = config.has("layer_types") ? by_type[i] : static_cast<int64_t>(i) >= first;
    if (sliding) spec.layers[i].window = window;
  }
  MoeSpec& moe = read_deepseek_experts(config, spec);
  moe.router.normalize = config.boolean("norm_topk_prob", false);
  return spec;
}

WeightNames dots1_weight_names() {
  return {kModelPrefixes, kModules, {}};
}

}  // namespace quire
