// Phi-3.5-MoE: Llama with LayerNorm, biases in attention and output, and two experts per token, selected by
// sparsemixer: the weight of each is a softmax over the experts with similar scores.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 1> kRouter = {{{moe::kRouter, "layers.{}.mlp.router"}}};
constexpr auto kPhimoeModules = joined(kLlamaMatrices, kLlamaNorms, kMixtralExperts, kRouter);

ModelSpec parse_phimoe(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.max_position_embeddings = 131072, .rope = {.theta = 1e6}});
  read_layer_norm(config, spec, "rms_norm_eps");
  set_attention_bias(spec, config.boolean("attention_bias", false));
  spec.lm_head_bias = config.boolean("lm_head_bias", false);
  read_window(config, spec, 0);
  MoeSpec moe = read_experts(config, {.experts = "num_local_experts",
                                      .intermediate = "intermediate_size",
                                      .default_experts = 16,
                                      .default_chosen = 2});
  moe.router.scoring_func = ScoringFunc::kSparseMixer;
  moe.router.near = static_cast<float>(2.0 * config.number("router_jitter_noise", 0.0, 1e3, 0.01));
  if (moe.router.num_experts_per_tok != 2)
    config.fail("num_experts_per_tok", "other than 2 is not supported");
  use_experts(spec, moe);
  return spec;
}

WeightNames phimoe_weight_names() {
  return {kModelPrefixes, kPhimoeModules, {}};
}

}  // namespace

std::span<const Architecture> phimoe_architectures() {
  static constexpr std::array kRows = {
      Architecture{"PhimoeForCausalLM", "phimoe", parse_phimoe, phimoe_weight_names},
      Architecture{"PhiMoEForCausalLM", "phimoe", parse_phimoe, phimoe_weight_names},
  };
  return kRows;
}

}  // namespace quire
