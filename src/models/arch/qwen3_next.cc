// Qwen3-Next and Qwen3.5: three of four layers are gated delta nets, the fourth attends, with gates on what
// it gives and a quarter of each head turning. Norms are stored less 1.
#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// Llama's, but that queries come with their gates.
constexpr auto kMatrices = [] {
  auto rows = kLlamaMatrices;
  for (ModuleName& row : rows) {
    if (row.role == Role::kQuery) row.order = RowOrder::kGatedHeads;
  }
  return rows;
}();
constexpr std::array<ModuleName, 5> kDeltaNet = {{
    {Role::kStateConv, "layers.{}.linear_attn.conv1d"},
    {.role = Role::kStepBias, .module = "layers.{}.linear_attn.dt_bias", .bare = true},
    {.role = Role::kRate, .module = "layers.{}.linear_attn.A_log", .bare = true},
    {Role::kStateNorm, "layers.{}.linear_attn.norm"},
    {Role::kStateOut, "layers.{}.linear_attn.out_proj"},
}};
constexpr std::array<ModuleName, 2> kNext = {{
    {.role = Role::kDeltaInGate,
     .module = "layers.{}.linear_attn.in_proj_qkvz",
     .order = RowOrder::kDeltaHeads},
    {.role = Role::kDeltaShareStep,
     .module = "layers.{}.linear_attn.in_proj_ba",
     .order = RowOrder::kDeltaSteps},
}};
constexpr std::array<ModuleName, 4> kLater = {{
    {Role::kDeltaIn, "layers.{}.linear_attn.in_proj_qkv"},
    {Role::kDeltaGate, "layers.{}.linear_attn.in_proj_z"},
    {Role::kDeltaShare, "layers.{}.linear_attn.in_proj_b"},
    {Role::kDeltaStep, "layers.{}.linear_attn.in_proj_a"},
}};
constexpr auto kNextModules =
    joined(kMatrices, kDeltaNet, kNext, kLater, kLlamaNorms, kQkNorms, kExperts, kQwenShared);
constexpr auto kLaterModules =
    joined(kMatrices, kDeltaNet, kLater, kLlamaNorms, kQkNorms, kExperts, kQwenShared);
// All but the MLPs.
ArchSpec parse_hybrid(const ConfigReader& config, int64_t intermediate_size) {
  ArchSpec spec = parse_llama_family(config, {.head_dim = 256,
                                              .max_position_embeddings = 32768,
                                              .rope = {.partial = true, .part = 0.25},
                                              .intermediate_size = intermediate_size});
  spec.norm_weight_offset = 1.0F;
  spec.qk_norm = QkNorm::kHeads;
  spec.attention_gate = true;
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  DeltaNetSizes& sizes =
      read_delta_net(config, spec, {.key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128});
  sizes.in_turn = config.boolean("linear_value_heads_in_turn", false);
  assign_mixers(config, spec, "layer_types", Recurrence::kDeltaNet,
                read_mixers(config, spec, config.integer("full_attention_interval", 1, kMaxLayers, 4)));
  return spec;
}

}  // namespace

DeltaNetSizes& read_delta_net(const ConfigReader& config, ArchSpec& spec, const DeltaNetSizes& defaults) {
  DeltaNetSizes& sizes = spec.delta_net.emplace().sizes;
  const auto size = [&](std::string_view field, int64_t most, int64_t fallback) {
    return static_cast<int32_t>(config.integer(field, 1, most, fallback));
  };
  sizes.key_heads = size("linear_num_key_heads", 1 << 16, defaults.key_heads);
  sizes.value_heads = size("linear_num_value_heads", 1 << 16, defaults.value_heads);
  sizes.key_dim = size("linear_key_head_dim", 1 << 13, defaults.key_dim);
  sizes.value_dim = size("linear_value_head_dim", 1 << 13, defaults.value_dim);
  sizes.taps = size("linear_conv_kernel_dim", kMaxConvTaps, defaults.taps);
  if (sizes.value_heads % sizes.key_heads != 0) {
    config.fail("linear_num_key_heads", cat("is ", sizes.key_heads, ", which does not divide ",
                                            "linear_num_value_heads (", sizes.value_heads, ")"));
  }
  return sizes;
}

std::vector<std::string> read_mixers(const ConfigReader& config, const ArchSpec& spec, int64_t interval) {
  std::vector<std::string> kinds = config.texts("layer_types");
  if (!kinds.empty()) return kinds;
  for (int64_t i = 0; i < spec.num_layers; ++i)
    kinds.emplace_back((i + 1) % interval == 0 ? "full_attention" : "linear_attention");
  return kinds;
}

ArchSpec parse_qwen3_next(const ConfigReader& config) {
  ArchSpec spec = parse_hybrid(config, 5632);
  if (config.integer(experts_field(config, "num_experts"), 0, kMaxExperts, 512) == 0) return spec;
  MoeSpec& moe = read_qwen_experts(config, spec, {.default_experts = 512, .default_chosen = 10});
  moe.router.normalize = config.boolean("norm_topk_prob", true);
  moe.shared_intermediate_size = config.integer("shared_expert_intermediate_size", 1, kMaxSize, 512);
  moe.shared_gate = true;
  return spec;
}

ArchSpec parse_qwen3_5(const ConfigReader& config) {
  return parse_hybrid(config, 12288);
}

ArchSpec parse_qwen3_5_moe(const ConfigReader& config) {
  ArchSpec spec = parse_hybrid(config, 1);  // no layer has an MLP of its own
  MoeSpec& moe = read_experts(config, spec, {.default_experts = 256, .default_chosen = 8});
  moe.router.normalize = true;
  moe.shared_intermediate_size = config.integer("shared_expert_intermediate_size", 1, kMaxSize, 512);
  moe.shared_gate = true;
  return spec;
}

WeightNames qwen3_next_weight_names() {
  return {kModelPrefixes, kNextModules, kDrafts};
}
WeightNames qwen3_5_weight_names() {
  return {kModelPrefixes, kLaterModules, kDrafts};
}

}  // namespace quire
