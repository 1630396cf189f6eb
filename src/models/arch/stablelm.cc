// StableLM: Llama with LayerNorm, of whose heads a quarter turns. StableLM 2 12B: attention and MLP side by
// side, and norms of each head's queries and keys, which are tensors of their own.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 2> kHeadNorms = {{
    {Role::kQueryNorm, "layers.{}.self_attn.q_layernorm.norms.{}"},
    {Role::kKeyNorm, "layers.{}.self_attn.k_layernorm.norms.{}"},
}};
constexpr auto kModules = joined(kLlamaMatrices, kLlamaNorms, kHeadNorms);

}  // namespace

ArchSpec parse_stablelm(const ConfigReader& config) {
  ArchSpec spec =
      parse_llama_family(config, {.max_position_embeddings = 4096, .rope = {.partial = true, .part = 0.25}});
  if (config.boolean("qk_layernorm", false)) spec.qk_norm = QkNorm::kEachHead;
  spec.qk_norm_kind = NormKind::kLayer;
  spec.norm = NormKind::kLayer;
  spec.norm_bias = true;
  spec.norm_eps = static_cast<float>(config.number("layer_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = config.boolean("use_qkv_bias", false);
  spec.parallel_residual = config.boolean("use_parallel_residual", false);
  spec.mlp_norm = !spec.parallel_residual;
  return spec;
}

WeightNames stablelm_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles};
}

}  // namespace quire
