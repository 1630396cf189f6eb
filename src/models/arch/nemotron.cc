// Nemotron 3 and 4, Minitron: Llama with LayerNorm that multiplies by 1 + weight, an ungated MLP with squared
// ReLU, and RoPE on a part of each head.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {

namespace {

ModelSpec parse_nemotron(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(
      config,
      {.max_position_embeddings = 4096, .rope = {.partial = true, .part = 0.5}, .activation = "relu2"});
  set_norm(spec, {.kind = NormKind::kLayer, .weight_offset = 1.0F, .bias = true});
  read_norm_eps(config, spec, "norm_eps", 1e-5);
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_all(spec, &MlpSpec::bias, config.boolean("mlp_bias", false));
  set_all(spec, &MlpSpec::gated, false);
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
