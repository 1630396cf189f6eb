// Hunyuan, dense and with experts: Llama with norms on query and key heads behind the rotation. Hy3 has them
// before it, and experts chosen by corrected sigmoids.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 2> kNorms = {{
    {Role::kQueryNorm, "layers.{}.self_attn.query_layernorm"},
    {Role::kKeyNorm, "layers.{}.self_attn.key_layernorm"},
}};
constexpr std::array<ModuleName, 4> kOwn = {{
    {Role::kRouter, "layers.{}.mlp.gate.wg"},
    {Role::kSharedExpertGate, "layers.{}.mlp.shared_mlp.gate_proj"},
    {Role::kSharedExpertUp, "layers.{}.mlp.shared_mlp.up_proj"},
    {Role::kSharedExpertDown, "layers.{}.mlp.shared_mlp.down_proj"},
}};
constexpr auto kDenseModules = joined(kLlamaMatrices, kLlamaNorms, kNorms);
constexpr auto kMoeModules = joined(kLlamaMatrices, kLlamaNorms, kNorms, kExperts, kOwn);
// As the hub's files and as transformers call what other architectures call otherwise.
constexpr std::array<ModuleName, 9> kHy3Own = {{
    {Role::kRouter, "layers.{}.mlp.router.gate"},
    {.role = Role::kRouterCorrection, .module = "layers.{}.mlp.expert_bias", .bare = true},
    {.role = Role::kRouterCorrection, .module = "layers.{}.mlp.e_score_correction_bias", .bare = true},
    {Role::kSharedExpertGate, "layers.{}.mlp.shared_mlp.gate_proj"},
    {Role::kSharedExpertUp, "layers.{}.mlp.shared_mlp.up_proj"},
    {Role::kSharedExpertDown, "layers.{}.mlp.shared_mlp.down_proj"},
    {Role::kSharedExpertGate, "layers.{}.mlp.shared_experts.gate_proj"},
    {Role::kSharedExpertUp, "layers.{}.mlp.shared_experts.up_proj"},
    {Role::kSharedExpertDown, "layers.{}.mlp.shared_experts.down_proj"},
}};
constexpr auto kHy3Modules = joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kExperts, kHy3Own);

// One number, or a list with the same one for each layer.
int64_t same_for_all(const ConfigReader& config, std::string_view field, int64_t fallback) {
  if (!config.has(field) || !config.find(field)->is_array())
    return config.integer(field, 1, kMaxSize, fallback);
  const auto values = config.integers(field, 1, kMaxSize);
  for (const int64_t value : values) {
    if (value != values.front()) config.fail(field, "differs from layer to layer, which is not supported");
  }
  if (values.empty()) config.fail(field, "is empty");
  return values.front();
}

}  // namespace

ArchSpec parse_hunyuan_dense(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.qk_norm = QkNorm::kHeads;
  spec.qk_norm_turned = true;
  return spec;
}

ArchSpec parse_hunyuan_moe(const ConfigReader& config) {
  ArchSpec spec = parse_hunyuan_dense(config);
  MoeSpec& moe = spec.moe.emplace();
  moe.num_experts = static_cast<int32_t>(same_for_all(config, "num_experts", 1));
  moe.router.num_chosen = static_cast<int32_t>(same_for_all(config, "moe_topk", 1));
  if (moe.num_experts > kMaxExperts) config.fail("num_experts", "is too large");
  if (moe.router.num_chosen > moe.num_experts) config.fail("moe_topk", "is more than num_experts");
  moe.router.normalize = true;
  moe.intermediate_size = moe.shared_intermediate_size = spec.intermediate_size;
  for (LayerSpec& layer : spec.layers) layer.experts = true;
  return spec;
}

ArchSpec parse_hy_v3(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(
      config, {.head_dim = 128, .max_position_embeddings = 131072, .rope = {.theta = 11158840.0}});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.mlp_bias = config.boolean("mlp_bias", false);
  spec.qk_norm = QkNorm::kHeads;
  read_sigmoid_experts(config, spec, {.default_experts = 192, .default_chosen = 8}, "router_scaling_factor",
                       2.826, 1);
  assign_experts(config, spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 1));
  return spec;
}

WeightNames hunyuan_dense_weight_names() {
  return {kModelPrefixes, kDenseModules, kSavedAngles};
}
WeightNames hunyuan_moe_weight_names() {
  return {kModelPrefixes, kMoeModules, kSavedAngles};
}
WeightNames hy_v3_weight_names() {
  return {kModelPrefixes, kHy3Modules, {}, true};
}

}  // namespace quire
