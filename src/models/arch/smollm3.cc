// SmolLM3: Llama of which every fourth layer does not know positions.
#include "models/arch/arch.h"

namespace quire {

ArchSpec parse_smollm3(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(
      config, {.max_position_embeddings = 32768, .rope = {.theta = 2000000.0}, .tie_word_embeddings = true});
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.mlp_bias = config.boolean("mlp_bias", false);
  // A list with 1 for each layer that knows positions, or every so-manyth layer without.
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

}  // namespace quire
