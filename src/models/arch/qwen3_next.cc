// Qwen3-Next and Qwen3.5: gated delta nets in three of four layers, attention with output gates and RoPE on a
// quarter of each head in the fourth. Norms multiply by 1 + weight.
#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// Llama's matrices, except that q_proj also has the output gates.
constexpr auto kQwen3NextMatrices = [] {
  auto rows = kLlamaMatrices;
  for (TensorName& row : rows) {
    if (row.params != ParamIds(attention::kQProj)) continue;
    row.params = {attention::kQProj, attention::kOutputGate};
    row.row_layout = q_gate_by_head;
  }
  return rows;
}();
constexpr std::array<TensorName, 5> kDeltaNet = {{
    {kDeltaConvParams, "layers.{}.linear_attn.conv1d"},
    {.params = recurrent::kDtBias, .module = "layers.{}.linear_attn.dt_bias", .bare = true},
    {.params = recurrent::kALog, .module = "layers.{}.linear_attn.A_log", .bare = true},
    {recurrent::kNorm, "layers.{}.linear_attn.norm"},
    {recurrent::kOutProj, "layers.{}.linear_attn.out_proj"},
}};
constexpr std::array<TensorName, 2> kNext = {{
    {.params = kDeltaQkvzParams,
     .module = "layers.{}.linear_attn.in_proj_qkvz",
     .row_layout = qkvz_by_key_head},
    {.params = kDeltaBaParams, .module = "layers.{}.linear_attn.in_proj_ba", .row_layout = ba_by_key_head},
}};
constexpr std::array<TensorName, 4> kLater = {{
    {kDeltaQkvParams, "layers.{}.linear_attn.in_proj_qkv"},
    {recurrent::kGProj, "layers.{}.linear_attn.in_proj_z"},
    {delta_net::kBProj, "layers.{}.linear_attn.in_proj_b"},
    {delta_net::kAProj, "layers.{}.linear_attn.in_proj_a"},
}};
constexpr auto kNextModules =
    joined(kQwen3NextMatrices, kDeltaNet, kNext, kLater, kLlamaNorms, kQkNorms, kMoeExperts, kQwenShared);
constexpr auto kLaterModules =
    joined(kQwen3NextMatrices, kDeltaNet, kLater, kLlamaNorms, kQkNorms, kMoeExperts, kQwenShared);
// Everything except the feed-forward layers.
ModelSpec parse_hybrid(const ConfigReader& config, int64_t intermediate_size) {
  ModelSpec spec = parse_llama_family(config, {.head_dim = 256,
                                               .max_position_embeddings = 32768,
                                               .rope = {.partial = true, .part = 0.25},
                                               .intermediate_size = intermediate_size});
  set_norm_offset(spec, 1.0F);
  set_qk_norm(spec, QkNorm::kHeads);
  set_gates(spec, false);
  set_attention_bias(spec, config.boolean("attention_bias", false));
  DeltaNetSpec sizes =
      read_delta_net(config, spec, {.key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128});
  sizes.in_turn = config.boolean("linear_value_heads_in_turn", false);
  assign_mixers(config, spec, "layer_types", sizes,
                read_mixers(config, spec, config.integer("full_attention_interval", 1, kMaxLayers, 4)));
  return spec;
}

}  // namespace

DeltaNetSpec read_delta_net(const ConfigReader& config, const ModelSpec& spec, const DeltaNetSpec& defaults) {
  DeltaNetSpec sizes = {.norm_eps = spec.norm.eps, .activation = first_mlp(spec).activation};
  const auto size = [&](std::string_view field, int64_t high, int64_t fallback) {
    return static_cast<int32_t>(config.integer(field, 1, high, fallback));
  };
  sizes.key_heads = size("linear_num_key_heads", 1 << 16, defaults.key_heads);
  sizes.value_heads = size("linear_num_value_heads", 1 << 16, defaults.value_heads);
  sizes.key_dim = size("linear_key_head_dim", 1 << 13, defaults.key_dim);
  sizes.value_dim = size("linear_value_head_dim", 1 << 13, defaults.value_dim);
  sizes.conv_kernel = size("linear_conv_kernel_dim", kMaxConvKernel, defaults.conv_kernel);
  if (sizes.value_heads % sizes.key_heads != 0) {
    config.fail("linear_num_key_heads", cat("is ", sizes.key_heads, ", which does not divide ",
                                            "linear_num_value_heads (", sizes.value_heads, ")"));
  }
  return sizes;
}

std::vector<std::string> read_mixers(const ConfigReader& config, const ModelSpec& spec, int64_t interval) {
  std::vector<std::string> kinds = config.texts("layer_types");
  if (!kinds.empty()) return kinds;
  for (int64_t i = 0; i < spec.num_layers(); ++i)
    kinds.emplace_back((i + 1) % interval == 0 ? "full_attention" : "linear_attention");
  return kinds;
}

namespace {

ModelSpec parse_qwen3_next(const ConfigReader& config) {
  ModelSpec spec = parse_hybrid(config, 5632);
  if (config.integer(experts_field(config, "num_experts"), 0, kMaxExperts, 512) == 0) return spec;
  MoeSpec moe = read_experts(config, {.default_experts = 512, .default_chosen = 10});
  moe.router.norm_topk_prob = config.boolean("norm_topk_prob", true);
  moe.shared_intermediate_size = config.integer("shared_expert_intermediate_size", 1, kMaxSize, 512);
  moe.shared_gate = true;
  use_experts(spec, moe, qwen_sparse_layers(config, spec));
  return spec;
}

ModelSpec parse_qwen3_5(const ConfigReader& config) {
  return parse_hybrid(config, 12288);
}

ModelSpec parse_qwen3_5_moe(const ConfigReader& config) {
  ModelSpec spec = parse_hybrid(config, 1);  // no layer has a dense MLP
  MoeSpec moe = read_experts(config, {.default_experts = 256, .default_chosen = 8});
  moe.router.norm_topk_prob = true;
  moe.shared_intermediate_size = config.integer("shared_expert_intermediate_size", 1, kMaxSize, 512);
  moe.shared_gate = true;
  use_experts(spec, moe);
  return spec;
}

WeightNames qwen3_next_weight_names() {
  return {kModelPrefixes, kNextModules, kDrafts};
}
WeightNames qwen3_5_weight_names() {
  return {kModelPrefixes, kLaterModules, kDrafts};
}

}  // namespace

std::span<const Architecture> qwen3_next_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Qwen3_5ForCausalLM", "qwen3_5_text", parse_qwen3_5, qwen3_5_weight_names},
      Architecture{"Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", parse_qwen3_5_moe, qwen3_5_weight_names},
      Architecture{"Qwen3NextForCausalLM", "qwen3_next", parse_qwen3_next, qwen3_next_weight_names},
  };
  return kRows;
}

}  // namespace quire
