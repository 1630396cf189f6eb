// The language model of Aria: Llama with experts selected by their logits, and a shared expert.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// Names in published checkpoints, and those that transformers writes.
constexpr std::array<TensorName, 8> kAriaOwn = {{
    {moe::kRouter, "layers.{}.mlp.router"},
    {kExpertGateUpParams, "layers.{}.mlp.experts.fc1"},
    {moe::kExpertDownProj, "layers.{}.mlp.experts.fc2"},
    {.params = kExpertGateUpParams, .module = "layers.{}.mlp.experts.gate_up_proj", .bare = true},
    {.params = moe::kExpertDownProj, .module = "layers.{}.mlp.experts.down_proj", .bare = true},
    {moe::kSharedGateProj, "layers.{}.mlp.shared_experts.gate_proj"},
    {moe::kSharedUpProj, "layers.{}.mlp.shared_experts.up_proj"},
    {moe::kSharedDownProj, "layers.{}.mlp.shared_experts.down_proj"},
}};
constexpr auto kAriaModules = [] {
  auto rows = joined(kLlamaAttention, kFinalNorm, kLlamaNorms, kAriaOwn);
  for (TensorName& row : rows) {
    row.transposed =
        row.params == ParamIds(kExpertGateUpParams) || row.params == ParamIds(moe::kExpertDownProj);
  }
  return rows;
}();

ModelSpec parse_aria(const ConfigReader& config) {
  ModelSpec spec = parse_llama(config);
  MoeSpec moe = read_experts(config, {.experts = "moe_num_experts",
                                      .chosen = "moe_topk",
                                      .intermediate = "intermediate_size",
                                      .default_experts = 8,
                                      .default_chosen = 2});
  moe.router.scoring_func = ScoringFunc::kChosenSoftmax;
  moe.shared_intermediate_size = config.integer("moe_num_shared_experts", 1, 1024, 2) * moe.intermediate_size;
  use_experts(spec, moe);
  return spec;
}

WeightNames aria_weight_names() {
  return {kModelPrefixes, kAriaModules, kSavedAngles};
}

}  // namespace

std::span<const Architecture> aria_architectures() {
  static constexpr std::array kRows = {
      Architecture{"AriaTextForCausalLM", "aria_text", parse_aria, aria_weight_names},
  };
  return kRows;
}

}  // namespace quire
