// Granite 3: Llama with factors on embeddings, attention scores, what is added to the hidden states, and
// logits. GraniteMoe has experts, all of them in one tensor; GraniteMoeShared one more for every row. Granite
// 4 (GraniteMoeHybrid) has Mamba 2 in place of attention in most layers, and mostly no positions. GraniteSWA
// has windows and sinks, each layer a rotation of its own or none, GraniteMoeSWA experts too; HyperCLOVA X
// norms what attention and MLP give.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 14> kGraniteExperts = {{
    {Role::kRouter, "layers.{}.block_sparse_moe.router.layer"},
    {Role::kRouter, "layers.{}.block_sparse_moe.router"},
    {Role::kExpertGateUp, "layers.{}.block_sparse_moe.input_linear"},
    {.role = Role::kExpertGateUp, .module = "layers.{}.block_sparse_moe.experts.gate_up_proj", .bare = true},
    {Role::kExpertDown, "layers.{}.block_sparse_moe.output_linear"},
    {.role = Role::kExpertDown, .module = "layers.{}.block_sparse_moe.experts.down_proj", .bare = true},
    {Role::kExpertGate, "layers.{}.block_sparse_moe.experts.{}.gate_proj"},
    {Role::kExpertUp, "layers.{}.block_sparse_moe.experts.{}.up_proj"},
    {Role::kExpertDown, "layers.{}.block_sparse_moe.experts.{}.down_proj"},
    {Role::kSharedExpertGateUp, "layers.{}.shared_mlp.input_linear"},
    {Role::kSharedExpertGate, "layers.{}.shared_mlp.gate_proj"},
    {Role::kSharedExpertUp, "layers.{}.shared_mlp.up_proj"},
    {Role::kSharedExpertDown, "layers.{}.shared_mlp.output_linear"},
    {Role::kSharedExpertDown, "layers.{}.shared_mlp.down_proj"},
}};
constexpr std::array<ModuleName, 1> kSinks = {
    {{.role = Role::kSinks, .module = "layers.{}.self_attn.sinks", .bare = true}}};
constexpr auto kSinkModules = joined(kLlamaMatrices, kLlamaNorms, kSinks);
constexpr std::array<ModuleName, 2> kTwoPostNorms = {{
    {Role::kPostAttentionNorm, "layers.{}.post_norm1"},
    {Role::kPostMlpNorm, "layers.{}.post_norm2"},
}};
constexpr auto kPostNormModules = joined(kLlamaMatrices, kLlamaNorms, kTwoPostNorms);
constexpr auto kModules = joined(kLlamaMatrices, kLlamaNorms, kGraniteExperts);
constexpr auto kSinkMoeModules = joined(kLlamaMatrices, kLlamaNorms, kSinks, kGraniteExperts);
// Without experts what every row goes through is the MLP.
constexpr std::array<ModuleName, 5> kSharedAlone = {{
    {Role::kGateUp, "layers.{}.shared_mlp.input_linear"},
    {Role::kGate, "layers.{}.shared_mlp.gate_proj"},
    {Role::kUp, "layers.{}.shared_mlp.up_proj"},
    {Role::kDown, "layers.{}.shared_mlp.output_linear"},
    {Role::kDown, "layers.{}.shared_mlp.down_proj"},
}};
constexpr auto kHybridModules =
    joined(kLlamaAttention, kFinalNorm, kLlamaNorms, kGraniteExperts, kSharedAlone, kMambaInLayer);

void read_swa(const ConfigReader& config, ArchSpec& spec) {
  spec.attention_sinks = true;
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 128));
  assign_windows(spec, sliding_layers(config, spec, 4, 0), window, 0, 0);
  const auto thetas = config.numbers("layer_rope_theta", 0.0, 1e15);
  if (!thetas.empty() && thetas.size() != spec.layers.size())
    config.fail("layer_rope_theta", cat("has ", thetas.size(), " entries for ", spec.num_layers, " layers"));
  for (size_t i = 0; i < thetas.size(); ++i) {
    const auto at = std::ranges::find(spec.ropes, thetas[i], &RopeSpec::theta);
    spec.layers[i].rope = thetas[i] == 0.0 ? kNoRope : static_cast<int32_t>(at - spec.ropes.begin());
    if (thetas[i] == 0.0 || at != spec.ropes.end()) continue;
    RopeSpec own = spec.ropes.front();
    own.theta = thetas[i];
    spec.ropes.push_back(std::move(own));
  }
}

}  // namespace

ArchSpec parse_granite(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {});
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.mlp_bias = config.boolean("mlp_bias", false);
  spec.embedding_multiplier = static_cast<float>(config.number("embedding_multiplier", -1e9, 1e9, 1.0));
  spec.residual_multiplier = static_cast<float>(config.number("residual_multiplier", -1e9, 1e9, 1.0));
  assign_layers(spec, 1.0 / config.number("attention_multiplier", 1e-9, 1e9, 1.0));
  spec.logit_scale = static_cast<float>(1.0 / config.number("logits_scaling", 1e-9, 1e9, 1.0));
  return spec;
}

ArchSpec parse_granite_swa(const ConfigReader& config) {
  ArchSpec spec = parse_granite(config);
  read_swa(config, spec);
  return spec;
}

ArchSpec parse_hyperclovax(const ConfigReader& config) {
  ArchSpec spec = parse_granite(config);
  const double scale = config.number("attention_multiplier", 1e-9, 1e9, 1.0 / std::sqrt(spec.head_dim));
  assign_layers(spec, 1.0 / scale);
  spec.logit_scale = static_cast<float>(config.number("logits_scaling", 1e-9, 1e9, 1.0));
  spec.post_norms = config.boolean("use_post_norm", true);
  return spec;
}

ArchSpec parse_granitemoe(const ConfigReader& config) {
  ArchSpec spec = parse_granite(config);
  MoeSpec& moe = read_experts(config, spec,
                              {.experts = "num_local_experts",
                               .intermediate = "intermediate_size",
                               .default_experts = 8,
                               .default_chosen = 2});
  moe.router.scores = RouterScores::kChosenSoftmax;
  moe.shared_intermediate_size = config.integer("shared_intermediate_size", 0, kMaxSize, 0);
  return spec;
}

ArchSpec parse_granitemoe_swa(const ConfigReader& config) {
  ArchSpec spec = parse_granitemoe(config);
  read_swa(config, spec);
  return spec;
}

ArchSpec parse_granitemoehybrid(const ConfigReader& config) {
  ArchSpec spec;
  if (config.integer("num_local_experts", 0, kMaxExperts, 8) > 0) {
    spec = parse_granitemoe(config);
    spec.moe->shared_intermediate_size = config.integer("shared_intermediate_size", 1, kMaxSize, 1024);
  } else {
    spec = parse_granite(config);
    spec.intermediate_size = config.integer("shared_intermediate_size", 1, kMaxSize, 1024);
  }
  spec.mlp_bias = false;
  const std::string positions = config.text("position_embedding_type", "nope");
  if (positions != "nope" && positions != "rope")
    config.fail("position_embedding_type", "must be rope or nope");
  if (positions == "nope") {
    for (LayerSpec& layer : spec.layers) layer.rope = kNoRope;
    spec.ropes.clear();
    spec.max_model_len = spec.max_position_embeddings;
  }
  read_mamba(config, spec, {});
  std::vector<std::string> kinds = config.texts("layer_types");
  if (kinds.empty()) kinds = config.texts("layers_block_type");
  if (kinds.empty()) kinds.assign(spec.layers.size(), "mamba");
  assign_mixers(config, spec, "layer_types", Recurrence::kMamba, kinds);
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
  return {kModelPrefixes, kModules, kSavedAngles};
}

}  // namespace quire
