// Seed-OSS: Llama with biases on queries, keys and values.
#include "models/arch/arch.h"

namespace quire {

ArchSpec parse_seed_oss(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.head_dim = 128, .max_position_embeddings = 524288});
  spec.qkv_bias = config.boolean("attention_bias", true);
  spec.out_bias = config.boolean("attention_out_bias", false);
  spec.mlp_bias = config.boolean("mlp_bias", false);
  return spec;
}

}  // namespace quire
