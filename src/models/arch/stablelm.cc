// StableLM: Llama with LayerNorm, of whose heads a quarter turns.
#include "models/arch/arch.h"

namespace quire {

ArchSpec parse_stablelm(const ConfigReader& config) {
  ArchSpec spec =
      parse_llama_family(config, {.max_position_embeddings = 4096, .rope = {.partial = true, .part = 0.25}});
  if (config.boolean("qk_layernorm", false)) config.fail("qk_layernorm", "is not supported");
  spec.norm = NormKind::kLayer;
  spec.norm_bias = true;
  spec.norm_eps = static_cast<float>(config.number("layer_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = config.boolean("use_qkv_bias", false);
  spec.parallel_residual = config.boolean("use_parallel_residual", false);
  spec.mlp_norm = !spec.parallel_residual;
  return spec;
}

}  // namespace quire
