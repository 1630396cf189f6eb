// Step-3.5 and the text part of Step-3.7: norms on query and key heads, a gate for each head, layers with a
// window that have more heads and another rotation, experts chosen by corrected sigmoids, MLPs with limits.
// Norms are stored less 1.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// Names of the hub's files; those of transformers are the others'.
constexpr std::array<ModuleName, 9> kOwn = {{
    {Role::kQueryGate, "layers.{}.self_attn.g_proj"},
    {Role::kRouter, "layers.{}.moe.gate"},
    {.role = Role::kRouterCorrection, .module = "layers.{}.moe.router_bias", .bare = true},
    {Role::kExpertGate, "layers.{}.moe.gate_proj"},
    {Role::kExpertUp, "layers.{}.moe.up_proj"},
    {Role::kExpertDown, "layers.{}.moe.down_proj"},
    {Role::kSharedExpertGate, "layers.{}.share_expert.gate_proj"},
    {Role::kSharedExpertUp, "layers.{}.share_expert.up_proj"},
    {Role::kSharedExpertDown, "layers.{}.share_expert.down_proj"},
}};
constexpr auto kModules = joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kExperts, kDeepseekShared, kOwn);

// Numbers by layer, of which those behind the model's layers are of layers that draft; empty where there is
// no such list.
std::vector<double> by_layer(const ConfigReader& config, std::string_view field, size_t layers) {
  const nlohmann::json* values = config.find(field);
  if (values == nullptr || !values->is_array()) return {};
  std::vector<double> out;
  for (const nlohmann::json& value : *values) out.push_back(value.is_number() ? value.get<double>() : 0.0);
  if (out.size() < layers) config.fail(field, cat("has ", out.size(), " entries for ", layers, " layers"));
  out.resize(layers);
  return out;
}

// The same of strings.
std::vector<std::string> kinds_of(const ConfigReader& config, std::string_view field, size_t layers) {
  std::vector<std::string> kinds = config.texts(field);
  if (kinds.size() > layers) kinds.resize(layers);
  return kinds;
}

// What the published configuration says of the layers one by one is one of two things, by their kind: the
// configuration as transformers writes it.
nlohmann::json by_kind(const ConfigReader& config) {
  nlohmann::json out = config.json();
  const auto layers = static_cast<size_t>(config.integer("num_hidden_layers", 1, kMaxLayers));
  auto kinds = kinds_of(config, "layer_types", layers);
  kinds.resize(layers, "full_attention");
  out["layer_types"] = kinds;
  const auto rename = [&](const char* from, const char* to) {
    if (config.has(from) && !config.has(to)) out[to] = out[from];
  };
  rename("num_attention_groups", "num_key_value_heads");
  rename("moe_num_experts", "n_routed_experts");
  rename("moe_top_k", "num_experts_per_tok");
  if (config.has("rope_parameters")) return out;
  const auto thetas = by_layer(config, "rope_theta", layers);
  const auto parts = by_layer(config, "partial_rotary_factors", layers);
  nlohmann::json ropes;
  for (size_t i = 0; i < layers; ++i) {
    nlohmann::json& rope = ropes[kinds[i]];
    rope["rope_type"] = "default";
    if (!thetas.empty()) rope["rope_theta"] = thetas[i];
    if (!parts.empty()) rope["partial_rotary_factor"] = parts[i];
  }
  if (config.has("rope_scaling") && ropes.contains("full_attention"))
    ropes["full_attention"].update(*config.find("rope_scaling"));
  out.erase("rope_scaling");
  if (!thetas.empty()) out.erase("rope_theta");
  out["rope_parameters"] = ropes;
  return out;
}

// Which layers have experts: as mlp_layer_types says, or the numbers in moe_layers_enum, or all but three.
void assign_sparse(const ConfigReader& config, ArchSpec& spec) {
  const auto kinds = kinds_of(config, "mlp_layer_types", spec.layers.size());
  std::set<int64_t> listed;
  const nlohmann::json* numbers = config.find("moe_layers_enum");
  if (numbers != nullptr && numbers->is_string()) {
    std::istringstream text(numbers->get<std::string>());
    for (std::string number; std::getline(text, number, ',');) listed.insert(std::atoll(number.c_str()));
  } else if (numbers != nullptr) {
    for (const int64_t number : config.integers("moe_layers_enum", 0, kMaxLayers)) listed.insert(number);
  }
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const bool usual = numbers == nullptr ? i >= 3 : listed.contains(static_cast<int64_t>(i));
    spec.layers[i].experts = i < kinds.size() ? kinds[i] == "sparse" : usual;
  }
}

}  // namespace

ArchSpec parse_step3(const ConfigReader& published) {
  const nlohmann::json json = by_kind(published);
  const ConfigReader config(json);
  ArchSpec spec = parse_llama_family(
      config,
      {.head_dim = 128, .max_position_embeddings = 128000, .rope = {.partial = true, .window_theta = 1e4}});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  spec.norm_weight_offset = 1.0F;
  spec.activation = Activation::kSilu;
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.qk_norm = QkNorm::kHeads;
  spec.attention_gate = spec.attention_gate_heads = true;
  const double scalar = config.number("query_pre_attn_scalar", 1e-6, 1e9, spec.head_dim);
  assign_layers(spec, std::sqrt(scalar));
  const std::vector<bool> sliding = sliding_layers(config, spec, 1);
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 512));
  assign_windows(spec, sliding, window, static_cast<int32_t>(spec.ropes.size()) - 1, 0);

  const int64_t usual_heads =
      config.object("attention_other_setting").integer("num_attention_heads", 1, 1 << 16, spec.num_heads);
  const auto window_heads =
      static_cast<int32_t>(config.integer("num_sliding_attention_heads", 1, 1 << 16, usual_heads));
  if (window_heads % spec.num_kv_heads != 0)
    config.fail("num_sliding_attention_heads", "is not a multiple of num_key_value_heads");
  const int32_t full_heads = spec.num_heads;
  spec.num_heads = std::max(full_heads, window_heads);

  MoeSpec& moe = read_experts(config, spec,
                              {.experts = "n_routed_experts", .default_experts = 288, .default_chosen = 8});
  moe.router.scores = RouterScores::kSigmoid;
  moe.router.normalize = true;
  moe.router.scale = static_cast<float>(config.number("moe_router_scaling_factor", -1e6, 1e6, 1.0));
  moe.correction = true;
  moe.shared_intermediate_size = config.integer("share_expert_dim", 1, kMaxSize, 1280);
  assign_sparse(config, spec);
  const auto limits = by_layer(config, "swiglu_limits", spec.layers.size());
  const auto shared_limits = by_layer(config, "swiglu_limits_shared", spec.layers.size());
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    layer.num_heads = sliding[i] ? window_heads : full_heads;
    if (!limits.empty()) layer.expert_limit = static_cast<float>(limits[i]);
    if (!shared_limits.empty()) layer.mlp_limit = static_cast<float>(shared_limits[i]);
  }
  return spec;
}

WeightNames step3_weight_names() {
  return {kModelPrefixes, kModules, {}, true};
}

}  // namespace quire
