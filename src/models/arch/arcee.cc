// Arcee (AFM): Llama with a plain MLP of squared ReLU. Jais 2: the same with LayerNorm, and biases
// everywhere.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {

ArchSpec parse_arcee(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.max_position_embeddings = 4096, .activation = "relu2"});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.mlp_bias = config.boolean("mlp_bias", false);
  spec.gated_mlp = false;
  return spec;
}

ArchSpec parse_jais2(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.max_position_embeddings = 8192, .activation = "relu2"});
  spec.norm = NormKind::kLayer;
  spec.norm_bias = true;
  spec.norm_eps = static_cast<float>(config.number("layer_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", true);
  spec.mlp_bias = config.boolean("mlp_bias", true);
  spec.gated_mlp = false;
  return spec;
}

WeightNames arcee_weight_names() {
  return {kModelPrefixes, kPlainLlama, kSavedAngles};
}

}  // namespace quire
