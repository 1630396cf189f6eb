// Nemotron 3 and 4, Minitron: Llama with LayerNorm that multiplies by 1 + weight, an ungated MLP with squared
// ReLU, and RoPE on a part of each head.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {

namespace {

ModelDraft parse_nemotron(const ConfigReader& config) {
  ModelDraft spec = parse_llama_family(
      config,
      {.max_position_embeddings = 4096, .rope = {.partial = true, .part = 0.5}, .activation = "relu2"});
  spec.norm = NormKind::kLayer;
  spec.norm_bias = true;
  spec.norm_weight_offset = 1.0F;
  spec.norm_eps = static_cast<float>(config.number("norm_eps", 0.0, 1.0, 1e-5));
  spec.attention.qkv_bias = spec.attention.o_bias = config.boolean("attention_bias", false);
  spec.mlp.bias = config.boolean("mlp_bias", false);
  spec.mlp.gated = false;
  return spec;
}

WeightNames nemotron_weight_names() {
  return {kModelPrefixes, kPlainLlama, kSavedAngles};
}

}  // namespace

std::span<const Architecture> nemotron_architectures() {
  static constexpr std::array kRows = {
      Architecture{"NemotronForCausalLM", "nemotron", parse_nemotron, nemotron_weight_names},
  };
  return kRows;
}

}  // namespace quire
