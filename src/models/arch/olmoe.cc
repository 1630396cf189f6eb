// OLMoE: Llama with experts, and RMS norms over all queries and all keys.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kModules = joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kExperts);

}  // namespace

ArchSpec parse_olmoe(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.max_position_embeddings = 4096});
  if (config.has("clip_qkv")) config.fail("clip_qkv", "is not supported");
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.qk_norm = QkNorm::kWhole;
  MoeSpec& moe = read_experts(
      config, spec, {.intermediate = "intermediate_size", .default_experts = 64, .default_chosen = 8});
  moe.router.normalize = config.boolean("norm_topk_prob", false);
  return spec;
}

WeightNames olmoe_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles};
}

}  // namespace quire
