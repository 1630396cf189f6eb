// OLMoE: Llama with experts, and QK norm over the full projections.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kOlmoeModules = joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kMoeExperts);

ModelDraft parse_olmoe(const ConfigReader& config) {
  ModelDraft spec = parse_llama_family(config, {.max_position_embeddings = 4096});
  spec.attention.clip_qkv = read_clip_qkv(config);
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.attention.qkv_bias = spec.attention.o_bias = config.boolean("attention_bias", false);
  spec.attention.qk_norm = QkNorm::kFullProjection;
  MoeSpec& moe = read_experts(
      config, spec, {.intermediate = "intermediate_size", .default_experts = 64, .default_chosen = 8});
  moe.router.norm_topk_prob = config.boolean("norm_topk_prob", false);
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
