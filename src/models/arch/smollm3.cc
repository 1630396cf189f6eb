// SmolLM3: Llama in which every fourth layer is a NoPE layer.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {

namespace {

ModelSpec parse_smollm3(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(
      config, {.max_position_embeddings = 32768, .rope = {.theta = 2000000.0}, .tie_word_embeddings = true});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_all(spec, &MlpSpec::bias, config.boolean("mlp_bias", false));
  // A list with 1 for each layer with RoPE, or the interval of NoPE layers.
  const auto knows = config.integers("no_rope_layers", 0, 1);
  if (!knows.empty() && knows.size() < spec.layers.size())
    config.fail("no_rope_layers", "has fewer entries than there are layers");
  const auto interval = static_cast<size_t>(config.integer("no_rope_layer_interval", 1, kMaxLayers, 4));
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const bool turns = knows.empty() ? (i + 1) % interval != 0 : knows[i] != 0;
    spec.layers[i].rope = turns ? 0 : kNoRope;
  }
  read_qwen_windows(config, spec);
  return spec;
}

}  // namespace

std::span<const Architecture> smollm3_architectures() {
  static constexpr std::array kRows = {
      Architecture{"SmolLM3ForCausalLM", "smollm3", parse_smollm3, llama_weight_names},
  };
  return kRows;
}

}  // namespace quire
