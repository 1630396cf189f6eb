// Apertus: Llama with QK norm, and an ungated MLP with the xIELU activation, which has learned parameters.
#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 6> kApertusRest = {{
    {layer::kInputNorm, "layers.{}.attention_layernorm"},
    {layer::kMlpNorm, "layers.{}.feedforward_layernorm"},
    {.params = mlp::kAlphaP, .module = "layers.{}.mlp.act_fn.alpha_p", .bare = true},
    {.params = mlp::kAlphaN, .module = "layers.{}.mlp.act_fn.alpha_n", .bare = true},
    {.params = mlp::kBeta, .module = "layers.{}.mlp.act_fn.beta", .bare = true},
    {.params = mlp::kEps, .module = "layers.{}.mlp.act_fn.eps", .bare = true},
}};
constexpr auto kApertusModules = joined(kPlainLlama, kApertusRest, kQkNorms);

ModelSpec parse_apertus(const ConfigReader& config) {
  if (const std::string name = config.text("hidden_act", "xielu"); name != "xielu")
    config.fail("hidden_act", cat("is '", name, "'; xielu is what is supported for this architecture"));
  ModelSpec spec = parse_llama_family(config, {.max_position_embeddings = 65536,
                                               .rope = {.theta = 12e6},
                                               .activation_field = "",
                                               .activation = "silu",
                                               .norm_eps = 1e-5});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_qk_norm(spec, QkNorm::kHeads);
  set_all(spec, &MlpSpec::gated, false);
  set_all(spec, &MlpSpec::xielu, true);
  return spec;
}

WeightNames apertus_weight_names() {
  return {kModelPrefixes, kApertusModules, kSavedAngles};
}

}  // namespace

std::span<const Architecture> apertus_architectures() {
  static constexpr std::array kRows = {
      Architecture{"ApertusForCausalLM", "apertus", parse_apertus, apertus_weight_names},
  };
  return kRows;
}

}  // namespace quire
