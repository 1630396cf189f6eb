// Arcee (AFM): Llama with an ungated MLP and squared ReLU. Jais 2: the same with LayerNorm, and biases
// everywhere.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {

namespace {

ModelSpec parse_arcee(const ConfigReader& config) {
  ModelSpec spec =
      parse_llama_family(config, {.max_position_embeddings = 4096, .activation = "relu2", .norm_eps = 1e-5});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_all(spec, &MlpSpec::bias, config.boolean("mlp_bias", false));
  set_all(spec, &MlpSpec::gated, false);
  return spec;
}

ModelSpec parse_jais2(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.max_position_embeddings = 8192, .activation = "relu2"});
  read_layer_norm(config, spec, "layer_norm_eps");
  set_attention_bias(spec, config.boolean("attention_bias", true));
  set_all(spec, &MlpSpec::bias, config.boolean("mlp_bias", true));
  set_all(spec, &MlpSpec::gated, false);
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
