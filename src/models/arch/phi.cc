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

ModelDraft parse_phi(const ConfigReader& config) {
  ModelDraft spec =
      parse_llama_family(config, {.rope = {.partial = true, .part = 0.5}, .activation = "gelu_new"});
  if (config.boolean("qk_layernorm", false)) {
    spec.attention.qk_norm = QkNorm::kHeads;
    spec.attention.qk_norm_spec.kind = NormKind::kLayer;
    spec.attention.qk_norm_spec.bias = true;
  }
  spec.norm = NormKind::kLayer;
  spec.norm_bias = true;
  spec.norm_eps = static_cast<float>(config.number("layer_norm_eps", 0.0, 1.0, 1e-5));
  spec.mlp.gated = false;
  spec.attention.qkv_bias = spec.attention.o_bias = spec.mlp.bias = spec.lm_head_bias = true;
  spec.parallel_residual = true;
  spec.mlp_norm = false;
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
