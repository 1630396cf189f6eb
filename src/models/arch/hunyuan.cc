// Hunyuan, dense and with experts: Llama with norms on query and key heads behind the rotation.
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

WeightNames hunyuan_dense_weight_names() {
  return {kModelPrefixes, kDenseModules, kSavedAngles};
}
WeightNames hunyuan_moe_weight_names() {
  return {kModelPrefixes, kMoeModules, kSavedAngles};
}

}  // namespace quire
