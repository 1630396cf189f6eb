// Granite 3: Llama with factors on embeddings, attention scores, what is added to the hidden states, and
// logits. GraniteMoe has experts, all of them in one tensor; GraniteMoeShared one more for every row.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 8> kGraniteExperts = {{
    {Role::kRouter, "layers.{}.block_sparse_moe.router.layer"},
    {Role::kRouter, "layers.{}.block_sparse_moe.router"},
    {Role::kExpertGateUp, "layers.{}.block_sparse_moe.input_linear"},
    {.role = Role::kExpertGateUp, .module = "layers.{}.block_sparse_moe.experts.gate_up_proj", .bare = true},
    {Role::kExpertDown, "layers.{}.block_sparse_moe.output_linear"},
    {.role = Role::kExpertDown, .module = "layers.{}.block_sparse_moe.experts.down_proj", .bare = true},
    {Role::kSharedExpertGateUp, "layers.{}.shared_mlp.input_linear"},
    {Role::kSharedExpertDown, "layers.{}.shared_mlp.output_linear"},
}};
constexpr auto kModules = joined(kLlamaMatrices, kLlamaNorms, kGraniteExperts);

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

WeightNames granitemoe_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles};
}

}  // namespace quire
