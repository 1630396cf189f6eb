// ERNIE 4.5 (dense): Llama whose heads turn in pairs of neighbours.
#include "models/arch/arch.h"

namespace quire {

ArchSpec parse_ernie4_5(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.head_dim = 128,
                                              .max_position_embeddings = 131072,
                                              .rope = {.theta = 500000.0, .style = RopeStyle::kInterleaved},
                                              .tie_word_embeddings = true});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = config.boolean("use_bias", false);
  return spec;
}

}  // namespace quire
