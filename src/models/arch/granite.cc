// Granite 3: Llama with factors on embeddings, attention scores, residual branches and logits. GraniteMoe has
// experts in stacked tensors; GraniteMoeShared also has a shared expert. Granite 4 (GraniteMoeHybrid) has
// Mamba 2 instead of attention in most layers, and usually no RoPE. GraniteSWA has sliding windows and
// attention sinks, with a RoPE base per layer (0 = NoPE); GraniteMoeSWA has experts, too. HyperCLOVA X has
// norms after attention and MLP.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 14> kGraniteExperts = {{
    {moe::kRouter, "layers.{}.block_sparse_moe.router.layer"},
    {moe::kRouter, "layers.{}.block_sparse_moe.router"},
    {kExpertGateUpParams, "layers.{}.block_sparse_moe.input_linear"},
    {.params = kExpertGateUpParams,
     .module = "layers.{}.block_sparse_moe.experts.gate_up_proj",
     .bare = true},
    {moe::kExpertDownProj, "layers.{}.block_sparse_moe.output_linear"},
    {.params = moe::kExpertDownProj, .module = "layers.{}.block_sparse_moe.experts.down_proj", .bare = true},
    {moe::kExpertGateProj, "layers.{}.block_sparse_moe.experts.{}.gate_proj"},
    {moe::kExpertUpProj, "layers.{}.block_sparse_moe.experts.{}.up_proj"},
    {moe::kExpertDownProj, "layers.{}.block_sparse_moe.experts.{}.down_proj"},
    {kSharedGateUpParams, "layers.{}.shared_mlp.input_linear"},
    {moe::kSharedGateProj, "layers.{}.shared_mlp.gate_proj"},
    {moe::kSharedUpProj, "layers.{}.shared_mlp.up_proj"},
    {moe::kSharedDownProj, "layers.{}.shared_mlp.output_linear"},
    {moe::kSharedDownProj, "layers.{}.shared_mlp.down_proj"},
}};
constexpr std::array<TensorName, 1> kGraniteSinks = {
    {{.params = attention::kSinks, .module = "layers.{}.self_attn.sinks", .bare = true}}};
constexpr auto kSinkModules = joined(kLlamaMatrices, kLlamaNorms, kGraniteSinks);
constexpr std::array<TensorName, 2> kTwoPostNorms = {{
    {layer::kPostAttentionNorm, "layers.{}.post_norm1"},
    {layer::kPostMlpNorm, "layers.{}.post_norm2"},
}};
constexpr auto kPostNormModules = joined(kLlamaMatrices, kLlamaNorms, kTwoPostNorms);
constexpr auto kGraniteModules = joined(kLlamaMatrices, kLlamaNorms, kGraniteExperts);
constexpr auto kSinkMoeModules = joined(kLlamaMatrices, kLlamaNorms, kGraniteSinks, kGraniteExperts);
// In models without experts, the shared expert is the MLP.
constexpr std::array<TensorName, 5> kSharedAlone = {{
    {kGateUpParams, "layers.{}.shared_mlp.input_linear"},
    {mlp::kGateProj, "layers.{}.shared_mlp.gate_proj"},
    {mlp::kUpProj, "layers.{}.shared_mlp.up_proj"},
    {mlp::kDownProj, "layers.{}.shared_mlp.output_linear"},
    {mlp::kDownProj, "layers.{}.shared_mlp.down_proj"},
}};
constexpr auto kHybridModules =
    joined(kLlamaAttention, kFinalNorm, kLlamaNorms, kGraniteExperts, kSharedAlone, kMambaInLayer);

void read_swa(const ConfigReader& config, ModelSpec& spec) {
  set_all(spec, &AttentionSpec::sinks, true);
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 128));
  assign_windows(spec, sliding_layers(config, spec, 4, 0), window, 0, 0);
  const auto thetas = config.numbers("layer_rope_theta", 0.0, 1e15);
  if (!thetas.empty() && thetas.size() != spec.layers.size())
    config.fail("layer_rope_theta",
                cat("has ", thetas.size(), " entries for ", spec.num_layers(), " layers"));
  for (size_t i = 0; i < thetas.size(); ++i) {
    const auto at = std::ranges::find(spec.ropes, thetas[i], &RopeSpec::theta);
    spec.layers[i].rope = thetas[i] == 0.0 ? kNoRope : static_cast<int32_t>(at - spec.ropes.begin());
    if (thetas[i] == 0.0 || at != spec.ropes.end()) continue;
    RopeSpec own = spec.ropes.front();
    own.theta = thetas[i];
    spec.ropes.push_back(std::move(own));
  }
}

ModelSpec parse_granite(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_all(spec, &MlpSpec::bias, config.boolean("mlp_bias", false));
  spec.embedding_multiplier = static_cast<float>(config.number("embedding_multiplier", -1e9, 1e9, 1.0));
  multiply_branches(spec, static_cast<float>(config.number("residual_multiplier", -1e9, 1e9, 1.0)));
  set_score_divisor(spec, 1.0 / config.number("attention_multiplier", 1e-9, 1e9, 1.0));
  spec.logit_scale = static_cast<float>(1.0 / config.number("logits_scaling", 1e-9, 1e9, 1.0));
  return spec;
}

ModelSpec parse_granite_swa(const ConfigReader& config) {
  ModelSpec spec = parse_granite(config);
  read_swa(config, spec);
  return spec;
}

ModelSpec parse_hyperclovax(const ConfigReader& config) {
  ModelSpec spec = parse_granite(config);
  const double scale =
      config.number("attention_multiplier", 1e-9, 1e9, 1.0 / std::sqrt(first_attention(spec).head_dim));
  set_score_divisor(spec, 1.0 / scale);
  spec.logit_scale = static_cast<float>(config.number("logits_scaling", 1e-9, 1e9, 1.0));
  if (config.boolean("use_post_norm", true)) place_norms(spec, NormPlace::kBoth);
  return spec;
}

ModelSpec parse_granitemoe(const ConfigReader& config) {
  ModelSpec spec = parse_granite(config);
  MoeSpec moe = read_experts(config, {.experts = "num_local_experts",
                                      .intermediate = "intermediate_size",
                                      .default_experts = 8,
                                      .default_chosen = 2});
  moe.router.scoring_func = ScoringFunc::kChosenSoftmax;
  moe.shared_intermediate_size = config.integer("shared_intermediate_size", 0, kMaxSize, 0);
  use_experts(spec, moe);
  return spec;
}

ModelSpec parse_granitemoe_swa(const ConfigReader& config) {
  ModelSpec spec = parse_granitemoe(config);
  read_swa(config, spec);
  return spec;
}

ModelSpec parse_granitemoehybrid(const ConfigReader& config) {
  ModelSpec spec;
  if (config.integer("num_local_experts", 0, kMaxExperts, 8) > 0) {
    spec = parse_granitemoe(config);
    set_all(spec, &MoeSpec::shared_intermediate_size,
            config.integer("shared_intermediate_size", 1, kMaxSize, 1024));
    set_all(spec, &MoeSpec::shared_bias, false);
  } else {
    spec = parse_granite(config);
    set_all(spec, &MlpSpec::intermediate_size, config.integer("shared_intermediate_size", 1, kMaxSize, 1024));
  }
  set_all(spec, &MlpSpec::bias, false);
  const std::string positions = config.text("position_embedding_type", "nope");
  if (positions != "nope" && positions != "rope")
    config.fail("position_embedding_type", "must be rope or nope");
  if (positions == "nope") {
    set_rope(spec, kNoRope);
    spec.ropes.clear();
    spec.max_model_len = spec.max_position_embeddings;
  }
  std::vector<std::string> kinds = config.texts("layer_types");
  if (kinds.empty()) kinds = config.texts("layers_block_type");
  if (kinds.empty()) kinds.assign(spec.layers.size(), "mamba");
  assign_mixers(config, spec, "layer_types", read_mamba(config, spec, {}), kinds);
  return spec;
}

WeightNames granite_swa_weight_names() {
  return {kModelPrefixes, kSinkModules, kSavedAngles};
}

WeightNames granitemoe_swa_weight_names() {
  return {kModelPrefixes, kSinkMoeModules, kSavedAngles};
}

WeightNames hyperclovax_weight_names() {
  return {kModelPrefixes, kPostNormModules, kSavedAngles};
}

WeightNames granitemoehybrid_weight_names() {
  return {kModelPrefixes, kHybridModules, {}};
}

WeightNames granitemoe_weight_names() {
  return {kModelPrefixes, kGraniteModules, kSavedAngles};
}

}  // namespace

std::span<const Architecture> granite_architectures() {
  static constexpr std::array kRows = {
      Architecture{"GraniteForCausalLM", "granite", parse_granite, llama_weight_names},
      Architecture{"GraniteMoeForCausalLM", "granitemoe", parse_granitemoe, granitemoe_weight_names},
      Architecture{"GraniteMoeHybridForCausalLM", "granitemoehybrid", parse_granitemoehybrid,
                   granitemoehybrid_weight_names},
      Architecture{"GraniteMoeSharedForCausalLM", "granitemoeshared", parse_granitemoe,
                   granitemoe_weight_names},
      Architecture{"GraniteMoeSWAForCausalLM", "granitemoe_swa", parse_granitemoe_swa,
                   granitemoe_swa_weight_names},
      Architecture{"GraniteSWAForCausalLM", "granite_swa", parse_granite_swa, granite_swa_weight_names},
      Architecture{"HyperCLOVAXForCausalLM", "hyperclovax", parse_hyperclovax, hyperclovax_weight_names},
  };
  return kRows;
}

}  // namespace quire
