// dots.llm1: Llama with QK norm per head, and experts as in DeepSeek-V3.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kDots1Modules = joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kMoeExperts, kDeepseekShared);

ModelSpec parse_dots1(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_qk_norm(spec, QkNorm::kHeads);
  const int64_t default_window = config.mentions("sliding_window") ? 0 : 4096;
  const auto window =
      static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, default_window));
  const int64_t first = config.integer("max_window_layers", 0, kMaxLayers, 62);
  const auto by_type = sliding_layers(config, spec, 1);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const bool sliding = config.has("layer_types") ? by_type[i] : static_cast<int64_t>(i) >= first;
    if (sliding) attention_of(spec.layers[i])->params.window = window;
  }
  MoeSpec moe = read_deepseek_experts(config);
  moe.router.norm_topk_prob = config.boolean("norm_topk_prob", false);
  use_experts(spec, moe, layers_from(spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 0)));
  return spec;
}

WeightNames dots1_weight_names() {
  return {kModelPrefixes, kDots1Modules, {}};
}

}  // namespace

std::span<const Architecture> dots1_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Dots1ForCausalLM", "dots1", parse_dots1, dots1_weight_names},
  };
  return kRows;
}

}  // namespace quire
