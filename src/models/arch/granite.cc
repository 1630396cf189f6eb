// Granite 3: Llama with factors on embeddings, attention scores, what is added to the hidden states, and
// logits.
#include "models/arch/arch.h"

namespace quire {

ArchSpec parse_granite(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {});
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.mlp_bias = config.boolean("mlp_bias", false);
  spec.embedding_multiplier = static_cast<float>(config.number("embedding_multiplier", -1e9, 1e9, 1.0));
  spec.residual_multiplier = static_cast<float>(config.number("residual_multiplier", -1e9, 1e9, 1.0));
  assign_layers(spec, 1.0 / config.number("attention_multiplier", 1e-9, 1e9, 1.0));
  spec.logit_scale = static_cast<float>(1.0 / config.number("logits_scaling", 1e-9, 1e9, 1.0));
  return spec;
}

}  // namespace quire
