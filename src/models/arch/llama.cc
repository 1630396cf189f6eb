// Llama 1 to 3.x, and what is built like it: TinyLlama, SmolLM2, Yi.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kModules = joined(kLlamaMatrices, kLlamaNorms);

}  // namespace

ArchSpec parse_llama(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {});
  spec.qkv_bias = config.boolean("attention_bias", false);
  spec.out_bias = spec.qkv_bias;
  spec.mlp_bias = config.boolean("mlp_bias", false);
  return spec;
}

WeightNames llama_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles};
}

}  // namespace quire
