// EXAONE 4: norms after attention and MLP instead of before, QK norm per head. If some layers have a sliding
// window, only those have RoPE. K-EXAONE (ExaoneMoe): norms before attention and MLP, and experts as in
// DeepSeek-V3.
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kExaone4Modules = joined(kLlamaMatrices, kPostNorms, kQkNorms);
constexpr std::array<TensorName, 1> kExaone4Correction = {
    {{.params = moe::kCorrectionBias, .module = "layers.{}.mlp.e_score_correction_bias", .bare = true}}};
constexpr auto kExaone4MoeModules =
    joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kMoeExperts, kDeepseekShared, kExaone4Correction);

// Which layers have a sliding window. Published configurations have a pattern such as "LLLG" instead of a
// number: L is a layer with a window, G one without. The last layer never has one.
std::vector<bool> sliding_layers_of(const ConfigReader& config, const ModelSpec& spec) {
  constexpr std::string_view kField = "sliding_window_pattern";
  const nlohmann::json* field = config.find(kField);
  if (field == nullptr || !field->is_string())
    return sliding_layers(config, spec, config.integer(kField, 1, 1024, 4));
  if (config.has("layer_types")) return sliding_layers(config, spec, 1);
  const std::string pattern = config.text(kField, "");
  if (pattern.empty() || pattern.find_first_not_of("LG") != std::string::npos)
    config.fail(kField, cat("must consist of L and G, but is '", pattern, "'"));
  std::vector<bool> sliding;
  for (size_t i = 0; i < spec.layers.size(); ++i)
    sliding.push_back(pattern[i % pattern.size()] == 'L' && i + 1 < spec.layers.size());
  return sliding;
}

ModelSpec parse_exaone4_family(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.norm_eps = 1e-5});
  set_qk_norm(spec, QkNorm::kHeads);
  const auto window = static_cast<int32_t>(
      config.integer("sliding_window", 1, kMaxPositions, config.mentions("sliding_window") ? 0 : 4096));
  if (window == 0) return spec;
  assign_windows(spec, sliding_layers_of(config, spec), window, 0, kNoRope);
  return spec;
}

ModelSpec parse_exaone4(const ConfigReader& config) {
  ModelSpec spec = parse_exaone4_family(config);
  place_norms(spec, NormPlace::kAfter);
  return spec;
}

ModelSpec parse_exaone_moe(const ConfigReader& config) {
  ModelSpec spec = parse_exaone4_family(config);
  MoeSpec moe =
      read_deepseek_experts(config, {.default_experts = 64, .default_chosen = 8}, "num_shared_experts");
  moe.router.routed_scaling_factor =
      static_cast<float>(config.number("routed_scaling_factor", -1e6, 1e6, 2.5));
  use_experts(spec, moe,
              sparse_layers(config, spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 1)));
  return spec;
}

WeightNames exaone4_weight_names() {
  return {kModelPrefixes, kExaone4Modules, {}};
}
WeightNames exaone_moe_weight_names() {
  return {kModelPrefixes, kExaone4MoeModules, kDrafts, true};
}

}  // namespace

std::span<const Architecture> exaone4_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Exaone4ForCausalLM", "exaone4", parse_exaone4, exaone4_weight_names},
      Architecture{"ExaoneMoEForCausalLM", "exaone_moe", parse_exaone_moe, exaone_moe_weight_names},
      Architecture{"ExaoneMoeForCausalLM", "exaone_moe", parse_exaone_moe, exaone_moe_weight_names},
  };
  return kRows;
}

}  // namespace quire
