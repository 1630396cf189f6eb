// Nemotron 3 and 4, Minitron: Llama with LayerNorm whose weights are stored less 1, a plain MLP of squared
// ReLU, a part of each head turns.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {

ArchSpec parse_nemotron(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(
      config,
      {.max_position_embeddings = 4096, .rope = {.partial = true, .part = 0.5}, .activation = "relu2"});
  spec.norm = NormKind::kLayer;
  spec.norm_bias = true;
  spec.norm_weight_offset = 1.0F;
  spec.norm_eps = static_cast<float>(config.number("norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.mlp_bias = config.boolean("mlp_bias", false);
  spec.gated_mlp = false;
  return spec;
}

WeightNames nemotron_weight_names() {
  return {kModelPrefixes, kPlainLlama, kSavedAngles};
}

}  // namespace quire
