// Mixtral: Mistral with experts in place of the MLP. MiniMax-M2: experts chosen by corrected sigmoids, RMS
// norms over all queries and all keys.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kMixtralModules = joined(kLlamaMatrices, kLlamaNorms, kMixtralExperts);
constexpr std::array<ModuleName, 2> kCorrection = {{
    {.role = Role::kRouterCorrection,
     .module = "layers.{}.block_sparse_moe.e_score_correction_bias",
     .bare = true},
    {.role = Role::kRouterCorrection, .module = "layers.{}.mlp.e_score_correction_bias", .bare = true},
}};
constexpr auto kMinimaxModules = joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kMixtralExperts, kCorrection);

}  // namespace

ArchSpec parse_mixtral(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.max_position_embeddings = 131072, .rope = {.theta = 1e6}});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  read_window(config, spec, 0);
  read_mixtral_experts(config, spec);
  return spec;
}

ArchSpec parse_minimax_m2(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(
      config, {.head_dim = 128, .max_position_embeddings = 196608, .rope = {.theta = 5e6, .partial = true}});
  // The first configurations say how many dimensions turn in a field of its own.
  const auto rotary_dim =
      static_cast<int32_t>(config.integer("rotary_dim", 2, spec.head_dim, spec.ropes.front().rotary_dim));
  spec.ropes.front().rotary_dim = rotary_dim / 2 * 2;
  spec.qk_norm = QkNorm::kWhole;
  MoeSpec& moe = read_experts(config, spec,
                              {.experts = "num_local_experts",
                               .intermediate = "intermediate_size",
                               .default_experts = 256,
                               .default_chosen = 8});
  moe.router.scores = RouterScores::kSigmoid;
  moe.router.normalize = true;
  moe.correction = true;
  return spec;
}

WeightNames mixtral_weight_names() {
  return {kModelPrefixes, kMixtralModules, kSavedAngles};
}
WeightNames minimax_m2_weight_names() {
  return {kModelPrefixes, kMinimaxModules, {}, true};
}

}  // namespace quire
