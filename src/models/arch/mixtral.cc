// Mixtral: Mistral with experts instead of the MLP. MiniMax-M2: experts selected by sigmoid scores with a
// correction bias, QK norm over the full projections.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kMixtralModules = joined(kLlamaMatrices, kLlamaNorms, kMixtralExperts);
constexpr std::array<TensorName, 2> kMixtralCorrection = {{
    {.params = moe::kCorrectionBias,
     .module = "layers.{}.block_sparse_moe.e_score_correction_bias",
     .bare = true},
    {.params = moe::kCorrectionBias, .module = "layers.{}.mlp.e_score_correction_bias", .bare = true},
}};
constexpr auto kMinimaxM2Modules =
    joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kMixtralExperts, kMixtralCorrection);

ModelSpec parse_mixtral(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(
      config, {.max_position_embeddings = 131072, .rope = {.theta = 1e6}, .norm_eps = 1e-5});
  read_window(config, spec, 0);
  const MoeSpec moe = read_mixtral_experts(config);
  use_experts(spec, moe);
  return spec;
}

ModelSpec parse_minimax_m2(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(
      config, {.head_dim = 128, .max_position_embeddings = 196608, .rope = {.theta = 5e6, .partial = true}});
  // The first configurations have rotary_dim instead of partial_rotary_factor.
  const auto rotary_dim = static_cast<int32_t>(
      config.integer("rotary_dim", 2, first_attention(spec).head_dim, spec.ropes.front().rotary_dim));
  spec.ropes.front().rotary_dim = rotary_dim / 2 * 2;
  set_qk_norm(spec, QkNorm::kFullProjection);
  MoeSpec moe = read_experts(config, {.experts = "num_local_experts",
                                      .intermediate = "intermediate_size",
                                      .default_experts = 256,
                                      .default_chosen = 8});
  moe.router.scoring_func = ScoringFunc::kSigmoid;
  moe.router.norm_topk_prob = true;
  moe.e_score_correction_bias = true;
  use_experts(spec, moe);
  return spec;
}

WeightNames mixtral_weight_names() {
  return {kModelPrefixes, kMixtralModules, kSavedAngles};
}
WeightNames minimax_m2_weight_names() {
  return {kModelPrefixes, kMinimaxM2Modules, {}, true};
}

}  // namespace

std::span<const Architecture> mixtral_architectures() {
  static constexpr std::array kRows = {
      Architecture{"MiniMaxM2ForCausalLM", "minimax_m2", parse_minimax_m2, minimax_m2_weight_names},
      Architecture{"MixtralForCausalLM", "mixtral", parse_mixtral, mixtral_weight_names},
  };
  return kRows;
}

}  // namespace quire
