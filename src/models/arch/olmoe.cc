// OLMoE: Llama with experts, and QK norm over the full projections.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kOlmoeModules = joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kMoeExperts);

ModelSpec parse_olmoe(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.max_position_embeddings = 4096, .norm_eps = 1e-5});
  set_all(spec, &AttentionSpec::clip_qkv, read_clip_qkv(config));
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_qk_norm(spec, QkNorm::kFullProjection);
  MoeSpec moe =
      read_experts(config, {.intermediate = "intermediate_size", .default_experts = 64, .default_chosen = 8});
  moe.router.norm_topk_prob = config.boolean("norm_topk_prob", false);
  use_experts(spec, moe);
  return spec;
}

WeightNames olmoe_weight_names() {
  return {kModelPrefixes, kOlmoeModules, kSavedAngles};
}

}  // namespace

std::span<const Architecture> olmoe_architectures() {
  static constexpr std::array kRows = {
      Architecture{"OlmoeForCausalLM", "olmoe", parse_olmoe, olmoe_weight_names},
  };
  return kRows;
}

}  // namespace quire
