// OLMo (the first): Llama with LayerNorm without weights.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {

namespace {

ModelDraft parse_olmo(const ConfigReader& config) {
  ModelDraft spec = parse_llama_family(config, {});
  spec.attention.clip_qkv = read_clip_qkv(config);
  spec.norm = NormKind::kLayer;
  spec.norm_eps = 1e-5F;
  spec.attention.qkv_bias = spec.attention.o_bias = config.boolean("attention_bias", false);
  return spec;
}

WeightNames olmo_weight_names() {
  return {kModelPrefixes, kNoNorms, kSavedAngles};
}

}  // namespace

std::span<const Architecture> olmo_architectures() {
  static constexpr std::array kRows = {
      Architecture{"OlmoForCausalLM", "olmo", parse_olmo, olmo_weight_names},
  };
  return kRows;
}

}  // namespace quire
