// Step-3.5 and the language model of Step-3.7: QK norm per head, one output gate per head, sliding windows in
// layers with more heads and another RoPE, experts selected by sigmoid scores with a correction bias, limits
// on MLP activations. Norms multiply by 1 + weight.
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

// Names in published checkpoints. transformers writes the names of other architectures.
constexpr std::array<TensorName, 9> kStep3Own = {{
    {attention::kOutputGate, "layers.{}.self_attn.g_proj"},
    {moe::kRouter, "layers.{}.moe.gate"},
    {.params = moe::kCorrectionBias, .module = "layers.{}.moe.router_bias", .bare = true},
    {moe::kExpertGateProj, "layers.{}.moe.gate_proj"},
    {moe::kExpertUpProj, "layers.{}.moe.up_proj"},
    {moe::kExpertDownProj, "layers.{}.moe.down_proj"},
    {moe::kSharedGateProj, "layers.{}.share_expert.gate_proj"},
    {moe::kSharedUpProj, "layers.{}.share_expert.up_proj"},
    {moe::kSharedDownProj, "layers.{}.share_expert.down_proj"},
}};
constexpr auto kStep3Modules =
    joined(kLlamaMatrices, kLlamaNorms, kQkNorms, kMoeExperts, kDeepseekShared, kStep3Own);

// A list of numbers by layer; empty if the field is absent. Elements after the last layer are for multi-token
// prediction.
std::vector<double> by_layer(const ConfigReader& config, std::string_view field, size_t layers) {
  const nlohmann::json* values = config.find(field);
  if (values == nullptr || !values->is_array()) return {};
  std::vector<double> out;
  for (const nlohmann::json& value : *values) out.push_back(value.is_number() ? value.get<double>() : 0.0);
  if (out.size() < layers) config.fail(field, cat("has ", out.size(), " entries for ", layers, " layers"));
  out.resize(layers);
  return out;
}

// Same, for strings.
std::vector<std::string> kStep3inds_of(const ConfigReader& config, std::string_view field, size_t layers) {
  std::vector<std::string> kinds = config.texts(field);
  if (kinds.size() > layers) kinds.resize(layers);
  return kinds;
}

// Converts the lists by layer of the published configuration, which have one of two values depending on the
// type of the layer, to the configuration that transformers writes.
nlohmann::json by_kind(const ConfigReader& config) {
  nlohmann::json out = config.json();
  const auto layers = static_cast<size_t>(config.integer("num_hidden_layers", 1, kMaxLayers));
  auto kinds = kStep3inds_of(config, "layer_types", layers);
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

// Which layers have experts: mlp_layer_types, or the numbers in moe_layers_enum, or all but the first three.
std::vector<bool> step3_sparse_layers(const ConfigReader& config, const ModelSpec& spec) {
  const auto kinds = kStep3inds_of(config, "mlp_layer_types", spec.layers.size());
  std::set<int64_t> listed;
  const nlohmann::json* numbers = config.find("moe_layers_enum");
  if (numbers != nullptr && numbers->is_string()) {
    std::istringstream text(numbers->get<std::string>());
    for (std::string number; std::getline(text, number, ',');) listed.insert(std::atoll(number.c_str()));
  } else if (numbers != nullptr) {
    for (const int64_t number : config.integers("moe_layers_enum", 0, kMaxLayers)) listed.insert(number);
  }
  std::vector<bool> sparse;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const bool is_sparse = numbers == nullptr ? i >= 3 : listed.contains(static_cast<int64_t>(i));
    sparse.push_back(i < kinds.size() ? kinds[i] == "sparse" : is_sparse);
  }
  return sparse;
}

ModelSpec parse_step3(const ConfigReader& published) {
  const nlohmann::json json = by_kind(published);
  const ConfigReader config = published.converted(json);
  ModelSpec spec = parse_llama_family(config, {.head_dim = 128,
                                               .max_position_embeddings = 128000,
                                               .rope = {.partial = true, .window_theta = 1e4},
                                               .norm_eps = 1e-5});
  set_norm_offset(spec, 1.0F);
  set_activation(spec, Activation::kSilu);
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_qk_norm(spec, QkNorm::kHeads);
  const double scalar = config.number("query_pre_attn_scalar", 1e-6, 1e9, first_attention(spec).head_dim);
  set_score_divisor(spec, std::sqrt(scalar));
  const std::vector<bool> sliding = sliding_layers(config, spec, 1);
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 512));
  assign_windows(spec, sliding, window, static_cast<int32_t>(spec.ropes.size()) - 1, 0);

  const int64_t default_heads =
      config.object("attention_other_setting")
          .integer("num_attention_heads", 1, 1 << 16, first_attention(spec).num_heads);
  const auto window_heads =
      static_cast<int32_t>(config.integer("num_sliding_attention_heads", 1, 1 << 16, default_heads));
  if (window_heads % first_attention(spec).num_kv_heads != 0)
    config.fail("num_sliding_attention_heads", "is not a multiple of num_key_value_heads");
  const int32_t full_heads = first_attention(spec).num_heads;
  for (size_t i = 0; i < sliding.size(); ++i)
    attention_of(spec.layers[i])->num_heads = sliding[i] ? window_heads : full_heads;
  set_gates(spec, true);

  MoeSpec moe =
      read_experts(config, {.experts = "n_routed_experts", .default_experts = 288, .default_chosen = 8});
  moe.router.scoring_func = ScoringFunc::kSigmoid;
  moe.router.norm_topk_prob = true;
  moe.router.routed_scaling_factor =
      static_cast<float>(config.number("moe_router_scaling_factor", -1e6, 1e6, 1.0));
  moe.e_score_correction_bias = true;
  moe.shared_intermediate_size = config.integer("share_expert_dim", 1, kMaxSize, 1280);
  use_experts(spec, moe, step3_sparse_layers(config, spec));
  const auto limits = by_layer(config, "swiglu_limits", spec.layers.size());
  const auto shared_limits = by_layer(config, "swiglu_limits_shared", spec.layers.size());
  for (size_t i = 0; i < spec.layers.size(); ++i)
    set_limits(spec.layers[i], shared_limits.empty() ? 0.0F : static_cast<float>(shared_limits[i]),
               limits.empty() ? 0.0F : static_cast<float>(limits[i]));
  return spec;
}

WeightNames step3_weight_names() {
  return {kModelPrefixes, kStep3Modules, {}, true};
}

}  // namespace

std::span<const Architecture> step3_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Step3p5ForCausalLM", "step3p5", parse_step3, step3_weight_names},
  };
  return kRows;
}

}  // namespace quire
