// The text part of Aria: Llama with experts chosen by their logits and a shared one, as large as several.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// As the hub's files and as transformers call them.
constexpr std::array<ModuleName, 8> kOwn = {{
    {Role::kRouter, "layers.{}.mlp.router"},
    {Role::kExpertGateUp, "layers.{}.mlp.experts.fc1"},
    {Role::kExpertDown, "layers.{}.mlp.experts.fc2"},
    {.role = Role::kExpertGateUp, .module = "layers.{}.mlp.experts.gate_up_proj", .bare = true},
    {.role = Role::kExpertDown, .module = "layers.{}.mlp.experts.down_proj", .bare = true},
    {Role::kSharedExpertGate, "layers.{}.mlp.shared_experts.gate_proj"},
    {Role::kSharedExpertUp, "layers.{}.mlp.shared_experts.up_proj"},
    {Role::kSharedExpertDown, "layers.{}.mlp.shared_experts.down_proj"},
}};
constexpr auto kModules = [] {
  auto rows = joined(kLlamaAttention, kFinalNorm, kLlamaNorms, kOwn);
  for (ModuleName& row : rows) {
    row.transposed = row.role == Role::kExpertGateUp || row.role == Role::kExpertDown;
  }
  return rows;
}();

}  // namespace

ArchSpec parse_aria(const ConfigReader& config) {
  ArchSpec spec = parse_llama(config);
  MoeSpec& moe = read_experts(config, spec,
                              {.experts = "moe_num_experts",
                               .chosen = "moe_topk",
                               .intermediate = "intermediate_size",
                               .default_experts = 8,
                               .default_chosen = 2});
  moe.router.scores = RouterScores::kChosenSoftmax;
  moe.shared_intermediate_size = config.integer("moe_num_shared_experts", 1, 1024, 2) * moe.intermediate_size;
  return spec;
}

WeightNames aria_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles};
}

}  // namespace quire
