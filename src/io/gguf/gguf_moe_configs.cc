// config.json for mixture-of-experts models.
#include <array>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "io/gguf/gguf_configs.h"
#include "io/gguf/gguf_fields.h"

namespace quire {
namespace {

using nlohmann::json;

// The fields of DeepSeek for the experts.
constexpr std::array<GgufField, 9> kDeepseekExperts = {{
    {"expert_count", "n_routed_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_shared_count", "n_shared_experts"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_group_count", "n_group"},
    {"expert_group_used_count", "topk_group"},
    {"expert_weights_scale", "routed_scaling_factor"},
    {"expert_weights_norm", "norm_topk_prob"},
    {"leading_dense_block_count", "first_k_dense_replace"},
}};
// The fields of Mixtral.
constexpr std::array<GgufField, 3> kLocalExperts = {{
    {"expert_count", "num_local_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_feed_forward_length", "intermediate_size"},
}};

// The fields of models with a number of shared experts.
constexpr std::array<GgufField, 4> kExperts = {{
    {"expert_count", "num_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_count", "num_shared_experts"},
}};

}  // namespace

void configure_mixtral(const GgufModel& model, json& config) {
  configure_llama(model, config);
  config["intermediate_size"] = gguf_require(model, "feed_forward_length", 1, kMaxGgufSize);
  copy_fields(model, config, kLocalExperts);
  config["sliding_window"] = json();
  config["lm_head_bias"] = has_tensor(model, "output.bias");
}

void configure_qwen_moe(const GgufModel& model, json& config) {
  configure_llama(model, config);
  constexpr std::array<GgufField, 4> kFields = {{
      {"expert_count", "num_experts"},
      {"expert_used_count", "num_experts_per_tok"},
      {"expert_feed_forward_length", "moe_intermediate_size"},
      {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
  }};
  copy_fields(model, config, kFields);
  if (config.contains("moe_intermediate_size") && !some_layer_has(model, "ffn_down.weight"))
    config["intermediate_size"] = config["moe_intermediate_size"];
  config["norm_topk_prob"] = config["model_type"] == "qwen3_moe" || config["model_type"] == "qwen3_next";
  config["decoder_sparse_step"] = 1;
  json dense = json::array();
  const int64_t layers = gguf_layers(model);
  for (int64_t i = 0; i < layers; ++i) {
    if (has_tensor(model, i, "ffn_down.weight")) dense.push_back(i);
  }
  config["mlp_only_layers"] = std::move(dense);
}

void configure_gpt_oss(const GgufModel& model, json& config) {
  configure_windows(model, config);
  copy_fields(model, config, kLocalExperts);
  // The only RoPE parameter that is not in the files.
  if (config.contains("rope_scaling")) config["rope_scaling"]["truncate"] = false;
}

void configure_deepseek_moe(const GgufModel& model, json& config) {
  configure_partial(model, config);
  copy_fields(model, config, kDeepseekExperts);
  config["use_qk_norm"] = has_tensor(model, "blk.0.attn_q_norm.weight");
  config["sliding_window"] = json();
}

void configure_deepseek(const GgufModel& model, json& config) {
  configure_llama(model, config);
  constexpr std::array<GgufField, 5> kFields = {{
      {"attention.q_lora_rank", "q_lora_rank"},
      {"attention.kv_lora_rank", "kv_lora_rank"},
      {"rope.dimension_count", "qk_rope_head_dim"},
      {"attention.value_length", "v_head_dim"},
      {"attention.value_length_mla", "v_head_dim"},  // if the other key is the size of the compressed KV
  }};
  copy_fields(model, config, kFields);
  copy_fields(model, config, kDeepseekExperts);
  const int64_t query = gguf_integer(model, "attention.key_length_mla")
                            .value_or(gguf_require(model, "attention.key_length", 1, kMaxGgufSize));
  config["qk_nope_head_dim"] = query - gguf_require(model, "rope.dimension_count", 1, query);
  // The KV cache has one compressed head for all of these.
  config["num_key_value_heads"] = config["num_attention_heads"];
  config.erase("head_dim");
  config["topk_method"] =
      gguf_integer(model, "expert_group_count").value_or(1) > 1 ? "group_limited_greedy" : "greedy";
  // Files contain a tenth of it, and use it for both mscale and mscale_all_dim.
  const auto logarithm = gguf_number(model, "rope.scaling.yarn_log_multiplier");
  if (!logarithm || !config.contains("rope_scaling")) return;
  json& rope = config["rope_scaling"];
  rope["mscale"] = rope["mscale_all_dim"] = *logarithm * 10.0;
}

void configure_indexed(const GgufModel& model, json& config) {
  configure_deepseek(model, config);
  constexpr std::array<GgufField, 3> kFields = {{
      {"attention.indexer.head_count", "index_n_heads"},
      {"attention.indexer.key_length", "index_head_dim"},
      {"attention.indexer.top_k", "index_topk"},
  }};
  copy_fields(model, config, kFields);
  const int64_t layers = gguf_layers(model);
  const std::vector<int64_t> said = model.file().integers(gguf_key(model, "attention.indexer.types"));
  json types = json::array();
  for (int64_t i = 0; i < layers; ++i) {
    const bool own = i < std::ssize(said) ? said[static_cast<size_t>(i)] != 0
                                          : has_tensor(model, i, "indexer.attn_k.weight");
    types.push_back(own ? "full" : "shared");
  }
  config["indexer_types"] = std::move(types);
}

void configure_mimo2(const GgufModel& model, json& config) {
  configure_windows(model, config);
  copy_fields(model, config, kDeepseekExperts);
  copy_rotated_part(model, config, "partial_rotary_factor");
  copy_integer(model, "attention.value_length", config, "v_head_dim");
  set_window_rope(model, config);
  config["attention_value_scale"] = json();
  copy_number(model, "attention.value_scale", config, "attention_value_scale");
  const int64_t layers = gguf_layers(model);
  const std::vector<int64_t> heads = model.file().integers(gguf_key(model, "attention.head_count_kv"));
  json sparse = json::array();
  config["add_swa_attention_sink_bias"] = config["add_full_attention_sink_bias"] = false;
  for (int64_t i = 0; i < layers; ++i) {
    const auto at = static_cast<size_t>(i);
    sparse.push_back(has_tensor(model, i, "ffn_gate_inp.weight") ? 1 : 0);
    const bool window = config.contains("layer_types") && at < config["layer_types"].size() &&
                        config["layer_types"][at] == "sliding_attention";
    if (at < heads.size()) config[window ? "swa_num_key_value_heads" : "num_key_value_heads"] = heads[at];
    if (has_tensor(model, i, "attn_sinks.weight"))
      config[window ? "add_swa_attention_sink_bias" : "add_full_attention_sink_bias"] = true;
  }
  config["moe_layer_freq"] = std::move(sparse);
}

void configure_mistral4(const GgufModel& model, json& config) {
  configure_deepseek(model, config);
  if (config.contains("rope_scaling"))
    copy_number(model, "attention.temperature_scale", config["rope_scaling"], "llama_4_scaling_beta");
}

void configure_ernie_moe(const GgufModel& model, json& config) {
  configure_llama(model, config);
  constexpr std::array<GgufField, 6> kFields = {{
      {"expert_count", "moe_num_experts"},
      {"expert_used_count", "moe_k"},
      {"expert_shared_count", "moe_num_shared_experts"},
      {"expert_feed_forward_length", "moe_intermediate_size"},
      {"leading_dense_block_count", "moe_layer_start_index"},
      {"interleave_moe_layer_step", "moe_layer_interval"},
  }};
  copy_fields(model, config, kFields);
}

void configure_granite_moe(const GgufModel& model, json& config) {
  configure_granite(model, config);
  copy_fields(model, config, kLocalExperts);
  copy_integer(model, "expert_shared_feed_forward_length", config, "shared_intermediate_size");
}

void configure_hunyuan_moe(const GgufModel& model, json& config) {
  configure_llama(model, config);
  constexpr std::array<GgufField, 3> kFields = {{
      {"expert_count", "num_experts"},
      {"expert_used_count", "moe_topk"},
      {"expert_feed_forward_length", "intermediate_size"},
  }};
  copy_fields(model, config, kFields);
}

void configure_llama4(const GgufModel& model, json& config) {
  configure_llama(model, config);
  config["intermediate_size_mlp"] = config["intermediate_size"];
  copy_fields(model, config, kLocalExperts);
  copy_integer(model, "interleave_moe_layer_step", config, "interleave_moe_layer_step");
  // The largest model, with 128 experts, has no QK norm.
  config["use_qk_norm"] = config["num_local_experts"] != 128;
}

void configure_minimax(const GgufModel& model, json& config) {
  configure_mixtral(model, config);
  copy_integer(model, "rope.dimension_count", config, "rotary_dim");
}

void configure_afmoe(const GgufModel& model, json& config) {
  configure_windows(model, config);
  copy_fields(model, config, kExperts);
  constexpr std::array<GgufField, 3> kFields = {{
      {"leading_dense_block_count", "num_dense_layers"},
      {"expert_weights_scale", "route_scale"},
      {"expert_weights_norm", "route_norm"},
  }};
  copy_fields(model, config, kFields);
  config["mup_enabled"] = true;
}

void configure_cohere2_moe(const GgufModel& model, json& config) {
  configure_cohere(model, config);
  copy_fields(model, config, kExperts);
  constexpr std::array<GgufField, 4> kFields = {{
      {"expert_feed_forward_length", "intermediate_size"},
      {"feed_forward_length", "prefix_dense_intermediate_size"},
      {"leading_dense_block_count", "first_k_dense_replace"},
      {"expert_weights_norm", "norm_topk_prob"},
  }};
  copy_fields(model, config, kFields);
  constexpr int64_t kSigmoid = 2;
  const bool sigmoid = gguf_integer(model, "expert_gating_func").value_or(0) == kSigmoid;
  config["expert_selection_fn"] = sigmoid ? "sigmoid" : "softmax";
}

void configure_exaone_moe(const GgufModel& model, json& config) {
  configure_windows(model, config);
  copy_fields(model, config, kDeepseekExperts);
  copy_fields(model, config, kExperts);
}

void configure_hy_v3(const GgufModel& model, json& config) {
  configure_llama(model, config);
  copy_fields(model, config, kExperts);
  constexpr std::array<GgufField, 2> kFields = {{
      {"expert_weights_scale", "router_scaling_factor"},
      {"expert_weights_norm", "route_norm"},
  }};
  copy_fields(model, config, kFields);
  const int64_t shared = gguf_integer(model, "expert_shared_feed_forward_length").value_or(0);
  config["num_shared_experts"] = shared / gguf_require(model, "expert_feed_forward_length", 1, kMaxGgufSize);
  const int64_t layers = gguf_layers(model);
  int64_t dense = 0;
  while (dense < layers && !has_tensor(model, dense, "ffn_gate_inp.weight")) ++dense;
  config["first_k_dense_replace"] = dense;
}

void configure_mellum(const GgufModel& model, json& config) {
  configure_qwen_moe(model, config);
  configure_windows(model, config);
  set_window_rope(model, config);
  config["norm_topk_prob"] = true;
}

void configure_minicpm3(const GgufModel& model, json& config) {
  configure_deepseek(model, config);
  // Values that are not in the files are the same in all models of that time.
  if (config.contains("rope_scaling") && !config.contains("original_max_position_embeddings"))
    config["original_max_position_embeddings"] = config["max_position_embeddings"];
}

}  // namespace quire
