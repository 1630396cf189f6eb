// Phi-1, 1.5 and 2: attention and MLP side by side behind one LayerNorm, biases everywhere, a part of each
// head turns.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 12> kModules = {{
    {Role::kEmbedding, "embed_tokens"},
    {Role::kInputNorm, "layers.{}.input_layernorm"},
    {Role::kQuery, "layers.{}.self_attn.q_proj"},
    {Role::kKey, "layers.{}.self_attn.k_proj"},
    {Role::kValue, "layers.{}.self_attn.v_proj"},
    {Role::kQueryNorm, "layers.{}.self_attn.q_layernorm"},
    {Role::kKeyNorm, "layers.{}.self_attn.k_layernorm"},
    {Role::kAttentionOut, "layers.{}.self_attn.dense"},
    {Role::kUp, "layers.{}.mlp.fc1"},
    {Role::kDown, "layers.{}.mlp.fc2"},
    {Role::kFinalNorm, "final_layernorm"},
    {Role::kLmHead, "lm_head"},
}};

}  // namespace

ArchSpec parse_phi(const ConfigReader& config) {
  ArchSpec spec =
      parse_llama_family(config, {.rope = {.partial = true, .part = 0.5}, .activation = "gelu_new"});
  if (config.boolean("qk_layernorm", false)) {
    spec.qk_norm = QkNorm::kHeads;
    spec.qk_norm_kind = NormKind::kLayer;
    spec.qk_norm_bias = true;
  }
  spec.norm = NormKind::kLayer;
  spec.norm_bias = true;
  spec.norm_eps = static_cast<float>(config.number("layer_norm_eps", 0.0, 1.0, 1e-5));
  spec.gated_mlp = false;
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = spec.lm_head_bias = true;
  spec.parallel_residual = true;
  spec.mlp_norm = false;
  return spec;
}

WeightNames phi_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles};
}

}  // namespace quire
