// OLMo (the first): Llama with LayerNorm without weights.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {

namespace {

ModelSpec parse_olmo(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {});
  set_all(spec, &AttentionSpec::clip_qkv, read_clip_qkv(config));
  set_norm(spec, {.kind = NormKind::kLayer, .eps = 1e-5F});
  set_attention_bias(spec, config.boolean("attention_bias", false));
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
