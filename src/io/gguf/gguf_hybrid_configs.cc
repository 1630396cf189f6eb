// config.json for recurrent and hybrid models.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "io/gguf/gguf_configs.h"
#include "io/gguf/gguf_fields.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr int64_t kMaxStateSize = 1 << 20;

// Sizes of Mamba 2 in the fields that most models use.
void copy_mamba(const GgufModel& model, json& config) {
  constexpr std::array<GgufField, 5> kFields = {{
      {"ssm.conv_kernel", "mamba_d_conv"},
      {"ssm.state_size", "mamba_d_state"},
      {"ssm.group_count", "mamba_n_groups"},
      {"ssm.time_step_rank", "mamba_n_heads"},
      {"ssm.inner_size", "mamba_d_ssm"},
  }};
  copy_fields(model, config, kFields);
  const int64_t heads = gguf_require(model, "ssm.time_step_rank", 1, kMaxStateSize);
  const int64_t inner = gguf_require(model, "ssm.inner_size", heads, kMaxStateSize);
  config["mamba_d_head"] = inner / heads;
  const int64_t hidden = gguf_require(model, "embedding_length", 1, kMaxGgufSize);
  config["mamba_expand"] = std::max<int64_t>(1, inner / hidden);
}

// Index of the first layer that has the tensor, and the distance to the next one.
void copy_period(const GgufModel& model, std::string_view tensor, json& config, const char* offset,
                 const char* period) {
  const int64_t layers = gguf_layers(model);
  const auto next = [&](int64_t i) {
    while (i < layers && !has_tensor(model, i, tensor)) ++i;
    return i;
  };
  const int64_t first = next(0);
  const int64_t second = next(first + 1);
  config[offset] = first;
  config[period] = second < layers ? second - first : layers;
}

}  // namespace

void configure_granite_hybrid(const GgufModel& model, json& config) {
  configure_granite_moe(model, config);
  copy_mamba(model, config);
  config["layer_types"] = gguf_mixers(model, "attention", "mamba");
  config["mamba_conv_bias"] = some_layer_has(model, "ssm_conv1d.bias");
  config["position_embedding_type"] = gguf_flag(model, "rope.scaling.finetuned", true) ? "rope" : "nope";
  if (config.value("num_local_experts", 0) == 0) {
    config["num_local_experts"] = 0;
    config["shared_intermediate_size"] = gguf_intermediate_size(model);
  }
}

void configure_bamba(const GgufModel& model, json& config) {
  configure_partial(model, config);
  copy_mamba(model, config);
  config["layers_block_type"] = gguf_mixers(model, "attention", "mamba");
  config["mamba_conv_bias"] = some_layer_has(model, "ssm_conv1d.bias");
}

// The multipliers are folded into the matrices.
void configure_falcon_h1(const GgufModel& model, json& config) {
  configure_llama(model, config);
  copy_mamba(model, config);
  config["mamba_conv_bias"] = has_tensor(model, "blk.0.ssm_conv1d.bias");
  config["mamba_proj_bias"] = has_tensor(model, "blk.0.ssm_in.bias");
  config["projectors_bias"] = has_tensor(model, "blk.0.ssm_out.bias");
  config["mamba_rms_norm"] = has_tensor(model, "blk.0.ssm_norm.weight");
}

void configure_jamba(const GgufModel& model, json& config) {
  configure_llama(model, config);
  constexpr std::array<GgufField, 5> kFields = {{
      {"ssm.conv_kernel", "mamba_d_conv"},
      {"ssm.state_size", "mamba_d_state"},
      {"ssm.time_step_rank", "mamba_dt_rank"},
      {"expert_count", "num_experts"},
      {"expert_used_count", "num_experts_per_tok"},
  }};
  copy_fields(model, config, kFields);
  const int64_t hidden = gguf_require(model, "embedding_length", 1, kMaxGgufSize);
  config["mamba_expand"] = gguf_require(model, "ssm.inner_size", hidden, kMaxStateSize) / hidden;
  config["mamba_conv_bias"] = some_layer_has(model, "ssm_conv1d.bias");
  config["mamba_proj_bias"] = some_layer_has(model, "ssm_in.bias");
  copy_period(model, "attn_q.weight", config, "attn_layer_offset", "attn_layer_period");
  copy_period(model, "ffn_gate_inp.weight", config, "expert_layer_offset", "expert_layer_period");
  if (!config.contains("num_experts")) config["num_experts"] = 1;
}

void configure_mamba2(const GgufModel& model, json& config) {
  constexpr std::array<GgufField, 7> kFields = {{
      {"embedding_length", "hidden_size"},
      {"block_count", "num_hidden_layers"},
      {"context_length", "max_position_embeddings"},
      {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon"},
      {"ssm.conv_kernel", "conv_kernel"},
      {"ssm.state_size", "state_size"},
      {"ssm.group_count", "n_groups"},
  }};
  copy_fields(model, config, kFields);
  copy_mamba(model, config);
  config["num_heads"] = config["mamba_n_heads"];
  config["head_dim"] = config["mamba_d_head"];
  config["expand"] = config["mamba_expand"];
  config["use_conv_bias"] = has_tensor(model, "blk.0.ssm_conv1d.bias");
  config["use_bias"] = has_tensor(model, "blk.0.ssm_in.bias");
}

void configure_nemotron_h(const GgufModel& model, json& config) {
  configure_deepseek_moe(model, config);
  config.erase("partial_rotary_factor");  // NoPE
  copy_mamba(model, config);
  constexpr std::array<GgufField, 6> kFields = {{
      {"ssm.conv_kernel", "conv_kernel"},
      {"ssm.state_size", "ssm_state_size"},
      {"ssm.group_count", "n_groups"},
      {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon"},
      {"attention.layer_norm_epsilon", "layer_norm_epsilon"},
      {"expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"},
  }};
  copy_fields(model, config, kFields);
  config["mamba_num_heads"] = config["mamba_n_heads"];
  config["mamba_head_dim"] = config["mamba_d_head"];
  config["use_bias"] = some_layer_has(model, "ssm_in.bias");
  config["use_conv_bias"] = some_layer_has(model, "ssm_conv1d.bias");
  config["mlp_bias"] = some_layer_has(model, "ffn_up.bias");
  json kinds = gguf_mixers(model, "attention", "mamba");
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto layer = static_cast<int64_t>(i);
    if (has_tensor(model, layer, "ffn_gate_inp.weight")) kinds[i] = "moe";
    if (has_tensor(model, layer, "ffn_up.weight")) kinds[i] = "mlp";
  }
  config["layers_block_type"] = std::move(kinds);
  // Files of the first converter version contain the number of groups, but not that all of them are used.
  if (!gguf_integer(model, "expert_group_used_count")) config["topk_group"] = config.value("n_group", 1);
}

void configure_qwen3_next(const GgufModel& model, json& config) {
  configure_qwen_moe(model, config);
  constexpr std::array<GgufField, 4> kFields = {{
      {"ssm.conv_kernel", "linear_conv_kernel_dim"},
      {"ssm.state_size", "linear_key_head_dim"},
      {"ssm.group_count", "linear_num_key_heads"},
      {"ssm.time_step_rank", "linear_num_value_heads"},
  }};
  copy_fields(model, config, kFields);
  const int64_t heads = gguf_require(model, "ssm.time_step_rank", 1, kMaxStateSize);
  config["linear_value_head_dim"] = gguf_require(model, "ssm.inner_size", heads, kMaxStateSize) / heads;
  config["layer_types"] = gguf_mixers(model, "full_attention", "linear_attention");
  copy_rotated_part(model, config, "partial_rotary_factor");
  if (!config.contains("num_experts")) config["num_experts"] = 0;
  config["linear_value_heads_in_turn"] = config["model_type"] != "qwen3_next";
}

void configure_kimi_linear(const GgufModel& model, json& config) {
  configure_deepseek(model, config);
  config["num_experts"] = config["n_routed_experts"];
  model.name_source("num_experts", gguf_key(model, "expert_count"));
  json attend = json::array();  // 1-based
  const GgufTensor* rates = nullptr;
  const int64_t layers = gguf_layers(model);
  for (int64_t i = 0; i < layers; ++i) {
    if (has_tensor(model, i, "attn_kv_a_mqa.weight")) {
      attend.push_back(i + 1);
    } else if (rates == nullptr) {
      rates = model.tensor(cat("blk.", i, ".ssm_a"));
    }
  }
  json nets = {{"full_attn_layers", std::move(attend)}};
  copy_integer(model, "kda.head_dim", nets, "head_dim");
  copy_integer(model, "ssm.conv_kernel", nets, "short_conv_kernel_size");
  if (rates != nullptr) {
    int64_t heads = 1;
    for (const int64_t dim : rates->shape) heads *= dim;
    nets["num_heads"] = heads;
  }
  config["linear_attn_config"] = std::move(nets);
}

void configure_lfm2(const GgufModel& model, json& config) {
  configure_llama(model, config);
  constexpr std::array<GgufField, 7> kFields = {{
      {"attention.layer_norm_rms_epsilon", "norm_eps"},
      {"shortconv.l_cache", "conv_L_cache"},
      {"expert_count", "num_experts"},
      {"expert_used_count", "num_experts_per_tok"},
      {"expert_feed_forward_length", "moe_intermediate_size"},
      {"leading_dense_block_count", "num_dense_layers"},
      {"expert_weights_scale", "routed_scaling_factor"},
  }};
  copy_fields(model, config, kFields);
  config["block_auto_adjust_ff_dim"] = false;
  config["conv_bias"] = some_layer_has(model, "shortconv.conv.bias");
  config["use_expert_bias"] = some_layer_has(model, "exp_probs_b.bias");
  config["layer_types"] = gguf_mixers(model, "full_attention", "conv");
}

}  // namespace quire
