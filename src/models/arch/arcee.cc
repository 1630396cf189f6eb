// Arcee (AFM): Llama with an ungated MLP and squared ReLU. Jais 2: the same with LayerNorm, and biases
// everywhere.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {

namespace {

ModelDraft parse_arcee(const ConfigReader& config) {
  ModelDraft spec = parse_llama_family(config, {.max_position_embeddings = 4096, .activation = "relu2"});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.attention.qkv_bias = spec.attention.o_bias = config.boolean("attention_bias", false);
  spec.mlp.bias = config.boolean("mlp_bias", false);
  spec.mlp.gated = false;
  return spec;
}

ModelDraft parse_jais2(const ConfigReader& config) {
  ModelDraft spec = parse_llama_family(config, {.max_position_embeddings = 8192, .activation = "relu2"});
  spec.norm = NormKind::kLayer;
  spec.norm_bias = true;
  spec.norm_eps = static_cast<float>(config.number("layer_norm_eps", 0.0, 1.0, 1e-5));
  spec.attention.qkv_bias = spec.attention.o_bias = config.boolean("attention_bias", true);
  spec.mlp.bias = config.boolean("mlp_bias", true);
  spec.mlp.gated = false;
  return spec;
}

WeightNames arcee_weight_names() {
  return {kModelPrefixes, kPlainLlama, kSavedAngles};
}

}  // namespace

std::span<const Architecture> arcee_architectures() {
  static constexpr std::array kRows = {
      Architecture{"ArceeForCausalLM", "arcee", parse_arcee, arcee_weight_names},
      Architecture{"Jais2ForCausalLM", "jais2", parse_jais2, arcee_weight_names},
  };
  return kRows;
}

}  // namespace quire
