// OLMo (the first): Llama with LayerNorm that has no weights.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {

ArchSpec parse_olmo(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {});
  if (config.has("clip_qkv")) config.fail("clip_qkv", "is not supported");
  spec.norm = NormKind::kLayer;
  spec.norm_eps = 1e-5F;
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  return spec;
}

WeightNames olmo_weight_names() {
  return {kModelPrefixes, kNoNorms, kSavedAngles};
}

}  // namespace quire
