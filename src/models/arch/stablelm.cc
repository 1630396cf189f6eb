// StableLM: Llama with LayerNorm and RoPE on a quarter of each head. StableLM 2 12B: attention and MLP in
// parallel, and QK norm with separate weights per head, each stored as a tensor of its own.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 2> kHeadNorms = {{
    {attention::kQNorm, "layers.{}.self_attn.q_layernorm.norms.{}"},
    {attention::kKNorm, "layers.{}.self_attn.k_layernorm.norms.{}"},
}};
constexpr auto kStablelmModules = joined(kLlamaMatrices, kLlamaNorms, kHeadNorms);

ModelSpec parse_stablelm(const ConfigReader& config) {
  ModelSpec spec =
      parse_llama_family(config, {.max_position_embeddings = 4096, .rope = {.partial = true, .part = 0.25}});
  if (config.boolean("qk_layernorm", false)) set_qk_norm(spec, QkNorm::kPerHeadWeights, NormKind::kLayer);
  read_layer_norm(config, spec, "layer_norm_eps");
  set_all(spec, &AttentionSpec::qkv_bias, config.boolean("use_qkv_bias", false));
  spec.parallel_residual = config.boolean("use_parallel_residual", false);
  if (spec.parallel_residual) remove_mlp_norm(spec);
  return spec;
}

WeightNames stablelm_weight_names() {
  return {kModelPrefixes, kStablelmModules, kSavedAngles};
}

}  // namespace

std::span<const Architecture> stablelm_architectures() {
  static constexpr std::array kRows = {
      Architecture{"StableLmForCausalLM", "stablelm", parse_stablelm, stablelm_weight_names},
  };
  return kRows;
}

}  // namespace quire
