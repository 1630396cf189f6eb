// Seed-OSS: Llama with biases on queries, keys and values.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {

namespace {

ModelDraft parse_seed_oss(const ConfigReader& config) {
  ModelDraft spec = parse_llama_family(config, {.head_dim = 128, .max_position_embeddings = 524288});
  spec.attention.qkv_bias = config.boolean("attention_bias", true);
  spec.attention.o_bias = config.boolean("attention_out_bias", false);
  spec.mlp.bias = config.boolean("mlp_bias", false);
  return spec;
}

}  // namespace

std::span<const Architecture> seed_oss_architectures() {
  static constexpr std::array kRows = {
      Architecture{"SeedOssForCausalLM", "seed_oss", parse_seed_oss, llama_weight_names},
  };
  return kRows;
}

}  // namespace quire
