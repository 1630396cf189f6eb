// Seed-OSS: Llama with biases on queries, keys and values.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {

namespace {

ModelSpec parse_seed_oss(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.head_dim = 128, .max_position_embeddings = 524288});
  set_all(spec, &AttentionSpec::qkv_bias, config.boolean("attention_bias", true));
  set_all(spec, &AttentionSpec::o_bias, config.boolean("attention_out_bias", false));
  set_all(spec, &MlpSpec::bias, config.boolean("mlp_bias", false));
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
