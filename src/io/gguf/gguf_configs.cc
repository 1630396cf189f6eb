#include "io/gguf/gguf_configs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <vector>

#include "base/split.h"
#include "base/strings.h"
#include "io/gguf/gguf_end_tokens.h"
#include "io/gguf/gguf_fields.h"

namespace quire {
namespace {

using nlohmann::json;

// Files of Gemma 2 and 3 without `attention.scale` do not contain the scale of the scores. The largest model
// of each series uses hidden_size / num_attention_heads, the others head_dim.
void copy_gemma_scale(const GgufModel& model, json& config, int64_t largest_layers) {
  const int64_t layers = gguf_require(model, "block_count", 1, kMaxGgufLayers);
  if (const auto scale = gguf_number(model, "attention.scale"); scale && *scale > 0.0) {
    config["query_pre_attn_scalar"] = 1.0 / (*scale * *scale);
  } else if (layers == largest_layers) {
    config["query_pre_attn_scalar"] =
        config["hidden_size"].get<int64_t>() / config["num_attention_heads"].get<int64_t>();
  } else {
    config["query_pre_attn_scalar"] = gguf_head_dim(model);
  }
}

// KV heads of the first layer that has some. If layers differ, the shapes of their tensors are used.
int64_t kv_heads(const GgufModel& model) {
  const std::string key = gguf_key(model, "attention.head_count_kv");
  const GgufValue* value = model.file().find(key);
  if (value == nullptr || !value->is_array) return model.file().integer(key).value_or(0);
  const auto all = model.file().integers(key);
  const auto first = std::ranges::find_if(all, [](int64_t n) { return n > 0; });
  return first == all.end() ? 0 : *first;
}

}  // namespace

void configure_llama(const GgufModel& model, json& config) {
  copy_sizes(model, config, "hidden_size", "num_hidden_layers", "num_attention_heads",
             "max_position_embeddings");
  config["intermediate_size"] = gguf_intermediate_size(model);
  if (const int64_t heads = kv_heads(model); heads > 0) config["num_key_value_heads"] = heads;
  model.name_source("num_key_value_heads", gguf_key(model, "attention.head_count_kv"));
  config["head_dim"] = gguf_head_dim(model);
  model.name_source("head_dim", gguf_key(model, "attention.key_length"));
  copy_number(model, "attention.layer_norm_rms_epsilon", config, "rms_norm_eps");
  copy_number(model, "attention.layer_norm_epsilon", config, "layer_norm_eps");
  copy_number(model, "attention.clamp_kqv", config, "clip_qkv");
  copy_rope(model, config);
  const auto head_dim = static_cast<double>(gguf_head_dim(model));
  expect_value(model, "rope.dimension_count", head_dim);
  const bool bias = has_tensor(model, "blk.0.attn_q.bias") || has_tensor(model, "blk.0.attn_qkv.bias");
  config["attention_bias"] = bias;
  config["attention_out_bias"] = has_tensor(model, "blk.0.attn_output.bias");
  config["mlp_bias"] = has_tensor(model, "blk.0.ffn_down.bias");
  config["use_bias"] = bias;
}

void configure_windows(const GgufModel& model, json& config) {
  configure_llama(model, config);
  // Values of layers with a window that are those of all layers, or of their heads.
  const auto head_dim = static_cast<double>(gguf_head_dim(model));
  expect_value(model, "rope.dimension_count_swa",
               gguf_number(model, "attention.key_length_swa").value_or(head_dim));
  expect_value(model, "rope.freq_base_swa", config["rope_theta"].get<double>());
  const int64_t window = gguf_integer(model, "attention.sliding_window").value_or(0);
  config["sliding_window"] = window > 0 ? json(window) : json();
  if (window <= 0) return;
  const std::string key = gguf_key(model, "attention.sliding_window_pattern");
  const GgufValue* pattern = model.file().find(key);
  if (pattern == nullptr) return;
  if (!pattern->is_array) {
    config["sliding_window_pattern"] = model.file().integer(key).value_or(1);
    return;
  }
  // Layers for multi-token prediction come last.
  std::vector<int64_t> slides = model.file().integers(key);
  slides.resize(std::min(slides.size(), static_cast<size_t>(gguf_layers(model))));
  json types = json::array();
  for (const int64_t one : slides) types.push_back(one != 0 ? "sliding_attention" : "full_attention");
  config["layer_types"] = std::move(types);
}

void set_window_rope(const GgufModel& model, json& config) {
  model.file().find(gguf_key(model, "rope.freq_base"));  // moved, not copied
  json full = config.value("rope_scaling", json::object());
  full["rope_theta"] = config["rope_theta"];
  config.erase("rope_scaling");
  json window = {{"rope_type", "default"}, {"rope_theta", full["rope_theta"]}};
  copy_positive(model, "rope.freq_base_swa", window, "rope_theta");
  config["rope_parameters"] = {{"full_attention", std::move(full)}, {"sliding_attention", std::move(window)}};
}

void configure_partial(const GgufModel& model, json& config) {
  configure_llama(model, config);
  copy_rotated_part(model, config, "partial_rotary_factor");
}

void configure_bloom(const GgufModel& model, json& config) {
  copy_sizes(model, config, "hidden_size", "num_hidden_layers", "num_attention_heads", "seq_length");
  copy_number(model, "attention.layer_norm_epsilon", config, "layer_norm_epsilon");
}

void configure_cohere(const GgufModel& model, json& config) {
  configure_windows(model, config);
  copy_number(model, "logit_scale", config, "logit_scale");
  config["use_qk_norm"] = has_tensor(model, "blk.0.attn_q_norm.weight");
}

void configure_falcon(const GgufModel& model, json& config) {
  copy_sizes(model, config, "hidden_size", "num_hidden_layers", "num_attention_heads",
             "max_position_embeddings");
  const int64_t kv_heads = gguf_integer(model, "attention.head_count_kv").value_or(1);
  const bool two_norms = has_tensor(model, "blk.0.attn_norm_2.weight");
  config["ffn_hidden_size"] = gguf_intermediate_size(model);
  config["num_kv_heads"] = kv_heads;
  config["multi_query"] = kv_heads == 1;
  config["new_decoder_architecture"] = two_norms || kv_heads > 1;
  config["num_ln_in_parallel_attn"] = two_norms ? 2 : 1;
  config["parallel_attn"] = true;
  config["bias"] = has_tensor(model, "blk.0.attn_qkv.bias");
  copy_number(model, "attention.layer_norm_epsilon", config, "layer_norm_epsilon");
  copy_rope(model, config);
}

void configure_gemma2(const GgufModel& model, json& config) {
  constexpr int64_t kLayersOf27b = 46;
  configure_windows(model, config);
  copy_gemma_scale(model, config, kLayersOf27b);
  copy_number(model, "attn_logit_softcapping", config, "attn_logit_softcapping");
  copy_number(model, "final_logit_softcapping", config, "final_logit_softcapping");
}

void configure_gemma3(const GgufModel& model, json& config) {
  constexpr int64_t kLayersOf27b = 62;
  configure_windows(model, config);
  copy_gemma_scale(model, config, kLayersOf27b);
  copy_number(model, "final_logit_softcapping", config, "final_logit_softcapping");
  copy_positive(model, "rope.freq_base_swa", config, "rope_local_base_freq");
  if (config["sliding_window"].is_null()) {
    config.erase("sliding_window");
    config["sliding_window_pattern"] = 1;  // all layers use full attention
  }
}

void configure_glm(const GgufModel& model, json& config) {
  configure_partial(model, config);
}

void configure_gpt2(const GgufModel& model, json& config) {
  copy_sizes(model, config, "n_embd", "n_layer", "n_head", "n_positions");
  config["n_inner"] = gguf_intermediate_size(model);
  copy_number(model, "attention.layer_norm_epsilon", config, "layer_norm_epsilon");
}

void configure_granite(const GgufModel& model, json& config) {
  configure_llama(model, config);
  config["attention_multiplier"] = 1.0 / std::sqrt(static_cast<double>(gguf_head_dim(model)));
  constexpr std::array<GgufField, 4> kFields = {{
      {"attention.scale", "attention_multiplier"},
      {"embedding_scale", "embedding_multiplier"},
      {"residual_scale", "residual_multiplier"},
      {"logit_scale", "logits_scaling"},
  }};
  copy_fields(model, config, kFields);
}

void configure_granite_swa(const GgufModel& model, json& config) {
  configure_granite(model, config);
  configure_windows(model, config);
}

// Equivalent to Granite. Defaults for old files are the values that all models of that time have.
void configure_minicpm(const GgufModel& model, json& config) {
  config["embedding_multiplier"] = 12.0;
  config["residual_multiplier"] = 1.4 / std::sqrt(static_cast<double>(gguf_layers(model)));
  config["logits_scaling"] =
      static_cast<double>(gguf_require(model, "embedding_length", 1, kMaxGgufSize)) / 256.0;
  configure_granite(model, config);
}

void configure_gemma3n(const GgufModel& model, json& config) {
  configure_windows(model, config);
  constexpr std::array<GgufField, 4> kFields = {{
      {"attention.shared_kv_layers", "num_kv_shared_layers"},
      {"embedding_length_per_layer_input", "hidden_size_per_layer_input"},
      {"altup.active_idx", "altup_active_idx"},
      {"altup.num_inputs", "altup_num_inputs"},
  }};
  copy_fields(model, config, kFields);
  copy_number(model, "final_logit_softcapping", config, "final_logit_softcapping");
  copy_positive(model, "rope.freq_base_swa", config, "rope_local_base_freq");
  const auto rows = [&](const std::string& name, size_t dim) {
    const GgufTensor* tensor = model.tensor(name);
    return tensor == nullptr || tensor->shape.size() != 2 ? int64_t{0} : tensor->shape[dim];
  };
  config["vocab_size_per_layer_input"] = rows("per_layer_token_embd.weight", 0);
  config["laurel_rank"] = rows("blk.0.laurel_l.weight", 0);
  config["altup_correct_scale"] = has_tensor(model, "blk.0.altup_correct_scale.weight");
  json sizes = json::array();
  const int64_t layers = gguf_layers(model);
  for (int64_t i = 0; i < layers; ++i) sizes.push_back(rows(cat("blk.", i, ".ffn_down.weight"), 1));
  config["intermediate_size"] = std::move(sizes);
  // Files contain the number of standard deviations above the mean, not the fraction of values that are
  // zeroed.
  const std::string key = gguf_key(model, "activation_sparsity_scale");
  json shares = json::array();
  for (const double deviations : model.file().numbers(key))
    shares.push_back(0.5 * std::erfc(-deviations / std::numbers::sqrt2));
  if (!shares.empty()) config["activation_sparsity_pattern"] = std::move(shares);
}

// Per layer: sliding windows, and different sizes of heads and MLPs.
void configure_gemma4(const GgufModel& model, json& config) {
  configure_gemma3(model, config);
  constexpr std::array<GgufField, 7> kFields = {{
      {"attention.key_length", "global_head_dim"},
      {"attention.key_length_swa", "head_dim"},
      {"attention.shared_kv_layers", "num_kv_shared_layers"},
      {"embedding_length_per_layer_input", "hidden_size_per_layer_input"},
      {"expert_count", "num_experts"},
      {"expert_used_count", "top_k_experts"},
      {"expert_feed_forward_length", "moe_intermediate_size"},
  }};
  copy_fields(model, config, kFields);
  config["enable_moe_block"] = gguf_integer(model, "expert_count").value_or(0) > 0;
  const GgufTensor* inputs = model.tensor("per_layer_token_embd.weight");
  if (inputs != nullptr && inputs->shape.size() == 2) config["vocab_size_per_layer_input"] = inputs->shape[0];
  const int64_t layers = gguf_layers(model);
  const auto rows = [&](int64_t layer, const char* name) {
    const GgufTensor* tensor = model.tensor(cat("blk.", layer, ".", name, ".weight"));
    return tensor == nullptr ? int64_t{0} : tensor->shape[0];
  };
  config["use_double_wide_mlp"] = rows(layers - 1, "ffn_up") > rows(0, "ffn_up");
  for (int64_t i = 0; i < layers && config.contains("layer_types"); ++i) {
    const bool full = config["layer_types"][static_cast<size_t>(i)] == "full_attention";
    const auto dim = config[full ? "global_head_dim" : "head_dim"].get<int64_t>();
    const int64_t heads = rows(i, "attn_k") / dim;
    if (heads > 0) config[full ? "num_global_key_value_heads" : "num_key_value_heads"] = heads;
    if (full && heads > 0) config["attention_k_eq_v"] = rows(i, "attn_v") == 0;
  }
  set_window_rope(model, config);
}

void configure_ministral3(const GgufModel& model, json& config) {
  configure_windows(model, config);
  json& rope = config["rope_scaling"];
  if (rope.is_null()) rope = json::object();
  copy_number(model, "attention.temperature_scale", rope, "llama_4_scaling_beta");
  if (const auto logarithm = gguf_number(model, "rope.scaling.yarn_log_multiplier"))
    rope["mscale"] = rope["mscale_all_dim"] = *logarithm;
}

void configure_nemotron(const GgufModel& model, json& config) {
  configure_partial(model, config);
  copy_number(model, "attention.layer_norm_epsilon", config, "norm_eps");
}

void configure_mpt(const GgufModel& model, json& config) {
  copy_sizes(model, config, "d_model", "n_layers", "n_heads", "max_seq_len");
  const int64_t hidden = config["d_model"].get<int64_t>();
  if (gguf_intermediate_size(model) % hidden != 0)
    model.file().fail("the MLP size is not a multiple of the hidden size");
  config["expansion_ratio"] = gguf_intermediate_size(model) / hidden;
  json attention = json::object();
  const double bias = gguf_number(model, "attention.max_alibi_bias").value_or(0.0);
  attention["alibi"] = bias > 0.0;
  if (bias > 0.0) attention["alibi_bias_max"] = bias;
  copy_number(model, "attention.clamp_kqv", attention, "clip_qkv");
  attention["qk_ln"] = has_tensor(model, "blk.0.attn_q_norm.weight");
  config["attn_config"] = std::move(attention);
  copy_number(model, "attention.layer_norm_epsilon", config, "layer_norm_epsilon");
}

void configure_neox(const GgufModel& model, json& config) {
  configure_llama(model, config);
  copy_rotated_part(model, config, "rotary_pct");
  if (const auto parallel = model.file().boolean(gguf_key(model, "use_parallel_residual")))
    config["use_parallel_residual"] = *parallel;
}

void configure_phi3(const GgufModel& model, json& config) {
  configure_windows(model, config);
  copy_rotated_part(model, config, "partial_rotary_factor");
}

void configure_stablelm(const GgufModel& model, json& config) {
  configure_partial(model, config);
  config["use_qkv_bias"] = config["attention_bias"];
  config["use_parallel_residual"] = !has_tensor(model, "blk.0.ffn_norm.weight");
  config["qk_layernorm"] = has_tensor(model, "blk.0.attn_q_norm.weight");
}

void configure_starcoder2(const GgufModel& model, json& config) {
  configure_windows(model, config);
  copy_number(model, "attention.layer_norm_epsilon", config, "norm_epsilon");
}

json gguf_config(const GgufModel& model, const GgufArch& arch) {
  const GgufTensor* embedding = model.tensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2)
    model.file().fail("not a complete model: tensor 'token_embd.weight' is missing");
  json config = {{"architectures", {arch.name}}, {"model_type", arch.model_type}};
  config["vocab_size"] = embedding->shape[0];
  config["tie_word_embeddings"] = !has_tensor(model, "output.weight");
  arch.configure(model, config);
  // Computation type for quantized matrices: norms and small tensors are float32 in all files.
  const GgufTensor* down = model.tensor("blk.0.ffn_down.weight");
  if (embedding->type->quantized() || (down != nullptr && down->type->quantized()))
    config["torch_dtype"] = "float16";
  const auto id = [&](std::string key, const char* field) {
    if (const auto value = model.file().integer(key)) config[field] = *value;
    model.name_source(field, std::move(key));
  };
  id("tokenizer.ggml.bos_token_id", "bos_token_id");
  id("tokenizer.ggml.eos_token_id", "eos_token_id");
  return config;
}

json gguf_generation_config(const GgufModel& model) {
  const GgufFile& file = model.file();
  json config = json::object();
  if (const GgufEndTokens ends = gguf_end_tokens(file); !ends.ids.empty()) config["eos_token_id"] = ends.ids;
  const auto setting = [&](std::string_view key, const char* field) {
    if (const auto value = file.number(key)) config[field] = *value;
  };
  setting("general.sampling.temp", "temperature");
  setting("general.sampling.top_p", "top_p");
  setting("general.sampling.min_p", "min_p");
  setting("general.sampling.penalty_repeat", "repetition_penalty");
  setting("general.sampling.xtc_probability", "xtc_probability");
  setting("general.sampling.xtc_threshold", "xtc_threshold");
  setting("general.sampling.mirostat_tau", "mirostat_tau");
  setting("general.sampling.mirostat_eta", "mirostat_eta");
  if (const auto top_k = file.integer("general.sampling.top_k")) config["top_k"] = *top_k;
  if (const auto mode = file.integer("general.sampling.mirostat")) config["mirostat"] = *mode;
  if (const auto names = file.text("general.sampling.sequence")) {
    config["samplers"] = split_text(*names, ";");  // "top_k;temperature"
  }
  return config;
}

}  // namespace quire
