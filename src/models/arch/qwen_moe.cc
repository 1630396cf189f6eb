// Qwen1.5-MoE and Qwen2-MoE: Qwen2 with experts and a shared expert. Qwen3-MoE: Qwen3 with experts. Mellum 2:
// the same with sliding windows in layers with another RoPE.
#include <algorithm>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kQwen2Modules = joined(kLlamaMatrices, kLlamaNorms, kMoeExperts, kQwenShared);
constexpr auto kQwen3MoeModules = joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kMoeExperts);

}  // namespace

std::vector<bool> qwen_sparse_layers(const ConfigReader& config, const ModelSpec& spec) {
  const int64_t step = config.integer("decoder_sparse_step", 1, kMaxLayers, 1);
  const auto dense = config.integers("mlp_only_layers", 0, kMaxLayers);
  std::vector<bool> sparse;
  for (int64_t i = 0; i < spec.num_layers(); ++i)
    sparse.push_back((i + 1) % step == 0 && std::ranges::find(dense, i) == dense.end());
  return sparse;
}

namespace {

MoeSpec read_qwen_experts(const ConfigReader& config, const ExpertFields& fields) {
  MoeSpec moe = read_experts(config, fields);
  moe.router.norm_topk_prob = config.boolean("norm_topk_prob", false);
  return moe;
}

ModelSpec parse_qwen2_moe(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.max_position_embeddings = 32768});
  set_all(spec, &AttentionSpec::qkv_bias, config.boolean("qkv_bias", true));
  if (config.boolean("use_sliding_window", false)) config.fail("use_sliding_window", "is not supported");
  MoeSpec moe = read_qwen_experts(config, {.default_experts = 60, .default_chosen = 4});
  moe.shared_intermediate_size = config.integer("shared_expert_intermediate_size", 1, kMaxSize, 5632);
  moe.shared_gate = true;
  use_experts(spec, moe, qwen_sparse_layers(config, spec));
  return spec;
}

ModelSpec parse_qwen3_moe(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.max_position_embeddings = 32768});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_qk_norm(spec, QkNorm::kHeads);
  if (config.boolean("use_sliding_window", false)) read_window(config, spec, 4096);
  const MoeSpec moe = read_qwen_experts(config, {.default_experts = 128, .default_chosen = 8});
  use_experts(spec, moe, qwen_sparse_layers(config, spec));
  return spec;
}

ModelSpec parse_mellum(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.head_dim = 128,
                                               .max_position_embeddings = 131072,
                                               .rope = {.theta = 500000.0, .window_theta = 10000.0}});
  if (spec.ropes.size() < 2)
    config.fail("rope_parameters", "must contain sliding_attention and full_attention");
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_qk_norm(spec, QkNorm::kHeads);
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 1024));
  assign_windows(spec, sliding_layers(config, spec, 1), window, 1, 0);
  MoeSpec moe = read_experts(config, {.default_experts = 64, .default_chosen = 8});
  moe.router.norm_topk_prob = config.boolean("norm_topk_prob", true);
  use_experts(spec, moe, sparse_layers(config, spec, 0));
  return spec;
}

WeightNames qwen2_moe_weight_names() {
  return {kModelPrefixes, kQwen2Modules, {}};
}
WeightNames qwen3_moe_weight_names() {
  return {kModelPrefixes, kQwen3MoeModules, kDrafts};
}

}  // namespace

std::span<const Architecture> qwen_moe_architectures() {
  static constexpr std::array kRows = {
      Architecture{"MellumForCausalLM", "mellum", parse_mellum, qwen3_moe_weight_names},
      Architecture{"Qwen2MoeForCausalLM", "qwen2_moe", parse_qwen2_moe, qwen2_moe_weight_names},
      Architecture{"Qwen3MoeForCausalLM", "qwen3_moe", parse_qwen3_moe, qwen3_moe_weight_names},
  };
  return kRows;
}

}  // namespace quire
