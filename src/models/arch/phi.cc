// Phi-1, 1.5 and 2: attention and MLP in parallel after one LayerNorm, biases everywhere, RoPE on a part of
// each head.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 12> kPhiModules = {{
    {model::kEmbedTokens, "embed_tokens"},
    {layer::kInputNorm, "layers.{}.input_layernorm"},
    {attention::kQProj, "layers.{}.self_attn.q_proj"},
    {attention::kKProj, "layers.{}.self_attn.k_proj"},
    {attention::kVProj, "layers.{}.self_attn.v_proj"},
    {attention::kQNorm, "layers.{}.self_attn.q_layernorm"},
    {attention::kKNorm, "layers.{}.self_attn.k_layernorm"},
    {attention::kOProj, "layers.{}.self_attn.dense"},
    {mlp::kUpProj, "layers.{}.mlp.fc1"},
    {mlp::kDownProj, "layers.{}.mlp.fc2"},
    {model::kFinalNorm, "final_layernorm"},
    {model::kLmHead, "lm_head"},
}};

ModelSpec parse_phi(const ConfigReader& config) {
  ModelSpec spec =
      parse_llama_family(config, {.rope = {.partial = true, .part = 0.5}, .activation = "gelu_new"});
  if (config.boolean("qk_layernorm", false)) set_qk_norm(spec, QkNorm::kHeads, NormKind::kLayer, true);
  read_layer_norm(config, spec, "layer_norm_eps");
  set_all(spec, &MlpSpec::gated, false);
  set_biases(spec, true);
  spec.lm_head_bias = true;
  spec.parallel_residual = true;
  remove_mlp_norm(spec);
  return spec;
}

WeightNames phi_weight_names() {
  return {kModelPrefixes, kPhiModules, kSavedAngles};
}

}  // namespace

std::span<const Architecture> phi_architectures() {
  static constexpr std::array kRows = {
      Architecture{"PhiForCausalLM", "phi", parse_phi, phi_weight_names},
  };
  return kRows;
}

}  // namespace quire
