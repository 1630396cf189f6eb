#include "io/gguf/gguf_configs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/strings.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr int64_t kMaxSize = int64_t{1} << 24;

std::string full_key(const GgufModel& model, std::string_view key) {
  return cat(model.file().text("general.architecture").value_or(""), ".", key);
}

// A number as who wrote the file wrote it: float32 0.00001 is 1e-05, not 9.99999975e-06.
std::optional<double> gguf_number(const GgufModel& model, std::string_view key) {
  const std::string name = full_key(model, key);
  const auto value = model.file().number(name);
  if (!value || model.file().find(name)->type != GgufType::kF32) return value;
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(*value)).ptr;
  double exact = 0.0;
  std::from_chars(text.data(), end, exact);
  return exact;
}

bool has(const GgufModel& model, std::string_view tensor) {
  return model.tensor(tensor) != nullptr;
}

void copy_integer(const GgufModel& model, std::string_view key, json& config, const char* field) {
  if (const auto value = gguf_integer(model, key)) config[field] = *value;
}
void copy_number(const GgufModel& model, std::string_view key, json& config, const char* field) {
  if (const auto value = gguf_number(model, key)) config[field] = *value;
}

int64_t head_dim(const GgufModel& model) {
  if (const auto size = gguf_integer(model, "attention.key_length"))
    return std::clamp<int64_t>(*size, 1, kMaxSize);
  return gguf_require(model, "embedding_length", 1, kMaxSize) /
         gguf_require(model, "attention.head_count", 1, kMaxSize);
}

// Input features of the first layer's down projection, which files say more reliably than their metadata.
int64_t intermediate_size(const GgufModel& model) {
  const GgufTensor* down = model.tensor("blk.0.ffn_down.weight");
  if (down != nullptr && down->shape.size() == 2) return down->shape[1];
  return gguf_require(model, "feed_forward_length", 1, kMaxSize);
}

void copy_sizes(const GgufModel& model, json& config, const char* hidden, const char* layers,
                const char* heads, const char* positions) {
  config[hidden] = gguf_require(model, "embedding_length", 1, kMaxSize);
  config[layers] = gguf_require(model, "block_count", 1, kMaxSize);
  config[heads] = gguf_require(model, "attention.head_count", 1, kMaxSize);
  config[positions] = gguf_require(model, "context_length", 1, int64_t{1} << 30);
}

std::vector<float> vector_of(const GgufModel& model, std::string_view name) {
  const GgufTensor& tensor = *model.tensor(name);
  if (tensor.shape.size() != 1 || tensor.type->dtype != DType::kF32)
    model.file().fail(cat("tensor '", name, "' is no vector of float32 numbers"));
  std::vector<float> values(static_cast<size_t>(tensor.shape[0]));
  std::memcpy(values.data(), model.data(name).data(), tensor.bytes);
  return values;
}

// The settings of Llama 3's rotation that give these factors for the pairs of a head. They are not in the
// file: of the many that give the same factors, those with the low factor 1 and the high factor 4 that all
// models have.
json llama3_rope(const GgufModel& model, double theta) {
  constexpr std::string_view kTensor = "rope_freqs.weight";
  constexpr double kLow = 1.0;
  constexpr double kHigh = 4.0;
  const std::vector<float> factors = vector_of(model, kTensor);
  const double factor = *std::max_element(factors.begin(), factors.end());
  const auto wavelength = [&](size_t i) {
    return 2.0 * M_PI * std::pow(theta, static_cast<double>(i) / static_cast<double>(factors.size()));
  };
  const auto expected = [&](size_t i, double original) {
    const double smooth = std::clamp((original / wavelength(i) - kLow) / (kHigh - kLow), 0.0, 1.0);
    return 1.0 / ((1.0 - smooth) / factor + smooth);
  };
  // A factor between the ends says the length; without one, it lies between the last 1 and the first other.
  double original = 0.0;
  double last_one = 0.0;
  for (size_t i = 0; i < factors.size() && original == 0.0; ++i) {
    if (factors[i] <= 1.0F) {
      last_one = wavelength(i);
    } else if (factors[i] < factor) {
      const double smooth = (1.0 / factors[i] - 1.0 / factor) / (1.0 - 1.0 / factor);
      original = std::round(wavelength(i) * (kLow + smooth * (kHigh - kLow)));
    } else {
      original = std::round(std::sqrt(std::max(1.0, kHigh * last_one) * std::max(1.0, wavelength(i))));
    }
  }
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!(std::abs(expected(i, original) - factors[i]) <= 1e-3 * factors[i]))
      model.file().fail(cat("tensor '", kTensor, "' stretches positions in a way that is not supported"));
  }
  return {{"rope_type", "llama3"},
          {"factor", factor},
          {"low_freq_factor", kLow},
          {"high_freq_factor", kHigh},
          {"original_max_position_embeddings", std::max(1.0, original)}};
}

void copy_rope(const GgufModel& model, json& config) {
  copy_number(model, "rope.freq_base", config, "rope_theta");
  if (has(model, "rope_factors_long.weight") && has(model, "rope_factors_short.weight")) {
    config["rope_scaling"] = {{"rope_type", "longrope"},
                              {"long_factor", vector_of(model, "rope_factors_long.weight")},
                              {"short_factor", vector_of(model, "rope_factors_short.weight")}};
    copy_number(model, "rope.scaling.attn_factor", config["rope_scaling"], "attention_factor");
    copy_integer(model, "rope.scaling.original_context_length", config, "original_max_position_embeddings");
    return;
  }
  if (has(model, "rope_freqs.weight")) {
    const std::vector<float> factors = vector_of(model, "rope_freqs.weight");
    const bool stretched = std::any_of(factors.begin(), factors.end(), [](float f) { return f != 1.0F; });
    if (stretched)
      config["rope_scaling"] = llama3_rope(model, gguf_number(model, "rope.freq_base").value_or(10000.0));
    return;
  }
  const auto type = model.file().text(full_key(model, "rope.scaling.type"));
  const auto old_factor = gguf_number(model, "rope.scale_linear");
  if (type == "none" || (!type && !old_factor)) return;
  json scaling = {{"rope_type", type.value_or("linear")}};
  if (old_factor) scaling["factor"] = *old_factor;
  copy_number(model, "rope.scaling.factor", scaling, "factor");
  copy_number(model, "rope.scaling.original_context_length", scaling, "original_max_position_embeddings");
  copy_number(model, "rope.scaling.yarn_attn_factor", scaling, "attention_factor");
  copy_number(model, "rope.scaling.yarn_beta_fast", scaling, "beta_fast");
  copy_number(model, "rope.scaling.yarn_beta_slow", scaling, "beta_slow");
  if (scaling["rope_type"] == "linear" && scaling.value("factor", 1.0) == 1.0) return;
  config["rope_scaling"] = std::move(scaling);
}

// What part of a head turns, where that is not all of it.
void copy_rotated_part(const GgufModel& model, json& config, const char* field) {
  const auto turned = gguf_integer(model, "rope.dimension_count");
  if (turned) config[field] = static_cast<double>(*turned) / static_cast<double>(head_dim(model));
}

// What scores of Gemma 2 and 3 are divided by is not in their files but in those with `attention.scale`: the
// largest of each takes the width of a head as if all of them made up the hidden size.
void copy_gemma_scale(const GgufModel& model, json& config, int64_t largest_layers) {
  const int64_t layers = gguf_require(model, "block_count", 1, kMaxSize);
  if (const auto scale = gguf_number(model, "attention.scale"); scale && *scale > 0.0) {
    config["query_pre_attn_scalar"] = 1.0 / (*scale * *scale);
  } else if (layers == largest_layers) {
    config["query_pre_attn_scalar"] =
        config["hidden_size"].get<int64_t>() / config["num_attention_heads"].get<int64_t>();
  } else {
    config["query_pre_attn_scalar"] = head_dim(model);
  }
}

}  // namespace

std::optional<int64_t> gguf_integer(const GgufModel& model, std::string_view key) {
  const std::string name = full_key(model, key);
  const GgufValue* value = model.file().find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array) return model.file().integer(name);
  const auto all = model.file().integers(name);
  if (all.empty() || std::any_of(all.begin(), all.end(), [&](int64_t n) { return n != all.front(); }))
    model.file().fail(cat("metadata '", name, "' differs from layer to layer, which is not supported"));
  return all.front();
}

int64_t gguf_require(const GgufModel& model, std::string_view key, int64_t low, int64_t high) {
  const auto value = gguf_integer(model, key);
  if (!value) model.file().fail(cat("has no metadata '", full_key(model, key), "'"));
  if (*value < low || *value > high)
    model.file().fail(
        cat("metadata '", full_key(model, key), "' is ", *value, ", expected ", low, " to ", high));
  return *value;
}

void configure_llama(const GgufModel& model, json& config) {
  copy_sizes(model, config, "hidden_size", "num_hidden_layers", "num_attention_heads",
             "max_position_embeddings");
  config["intermediate_size"] = intermediate_size(model);
  copy_integer(model, "attention.head_count_kv", config, "num_key_value_heads");
  config["head_dim"] = head_dim(model);
  copy_number(model, "attention.layer_norm_rms_epsilon", config, "rms_norm_eps");
  copy_number(model, "attention.layer_norm_epsilon", config, "layer_norm_eps");
  copy_rope(model, config);
  const bool bias = has(model, "blk.0.attn_q.bias") || has(model, "blk.0.attn_qkv.bias");
  config["attention_bias"] = bias;
  config["attention_out_bias"] = has(model, "blk.0.attn_output.bias");
  config["mlp_bias"] = has(model, "blk.0.ffn_down.bias");
  config["use_bias"] = bias;
}

void configure_windows(const GgufModel& model, json& config) {
  configure_llama(model, config);
  const int64_t window = gguf_integer(model, "attention.sliding_window").value_or(0);
  config["sliding_window"] = window > 0 ? json(window) : json();
  if (window <= 0) return;
  const std::string key = full_key(model, "attention.sliding_window_pattern");
  const GgufValue* pattern = model.file().find(key);
  if (pattern == nullptr) return;
  if (!pattern->is_array) {
    config["sliding_window_pattern"] = model.file().integer(key).value_or(1);
    return;
  }
  json types = json::array();
  for (const int64_t slides : model.file().integers(key))
    types.push_back(slides != 0 ? "sliding_attention" : "full_attention");
  config["layer_types"] = std::move(types);
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
  config["use_qk_norm"] = has(model, "blk.0.attn_q_norm.weight");
}

void configure_falcon(const GgufModel& model, json& config) {
  copy_sizes(model, config, "hidden_size", "num_hidden_layers", "num_attention_heads",
             "max_position_embeddings");
  const int64_t kv_heads = gguf_integer(model, "attention.head_count_kv").value_or(1);
  const bool two_norms = has(model, "blk.0.attn_norm_2.weight");
  config["ffn_hidden_size"] = intermediate_size(model);
  config["num_kv_heads"] = kv_heads;
  config["multi_query"] = kv_heads == 1;
  config["new_decoder_architecture"] = two_norms || kv_heads > 1;
  config["num_ln_in_parallel_attn"] = two_norms ? 2 : 1;
  config["parallel_attn"] = true;
  config["bias"] = has(model, "blk.0.attn_qkv.bias");
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
  copy_number(model, "rope.freq_base_swa", config, "rope_local_base_freq");
  if (config["sliding_window"].is_null()) {
    config.erase("sliding_window");
    config["sliding_window_pattern"] = 1;  // all layers see everything
  }
}

void configure_glm(const GgufModel& model, json& config) {
  configure_partial(model, config);
}

void configure_gpt2(const GgufModel& model, json& config) {
  copy_sizes(model, config, "n_embd", "n_layer", "n_head", "n_positions");
  config["n_inner"] = intermediate_size(model);
  copy_number(model, "attention.layer_norm_epsilon", config, "layer_norm_epsilon");
}

void configure_granite(const GgufModel& model, json& config) {
  configure_llama(model, config);
  copy_number(model, "attention.scale", config, "attention_multiplier");
  copy_number(model, "embedding_scale", config, "embedding_multiplier");
  copy_number(model, "residual_scale", config, "residual_multiplier");
  copy_number(model, "logit_scale", config, "logits_scaling");
}

void configure_mixtral(const GgufModel& model, json& config) {
  configure_llama(model, config);
  config["num_local_experts"] = gguf_require(model, "expert_count", 1, 1 << 16);
  config["num_experts_per_tok"] = gguf_require(model, "expert_used_count", 1, 1 << 16);
  config["intermediate_size"] = gguf_require(model, "feed_forward_length", 1, kMaxSize);
  config["sliding_window"] = json();
}

void configure_mpt(const GgufModel& model, json& config) {
  copy_sizes(model, config, "d_model", "n_layers", "n_heads", "max_seq_len");
  const int64_t hidden = config["d_model"].get<int64_t>();
  if (intermediate_size(model) % hidden != 0)
    model.file().fail("has an MLP that is no multiple of the hidden size");
  config["expansion_ratio"] = intermediate_size(model) / hidden;
  json attention = json::object();
  const double bias = gguf_number(model, "attention.max_alibi_bias").value_or(0.0);
  attention["alibi"] = bias > 0.0;
  if (bias > 0.0) attention["alibi_bias_max"] = bias;
  copy_number(model, "attention.clamp_kqv", attention, "clip_qkv");
  attention["qk_ln"] = has(model, "blk.0.attn_q_norm.weight");
  config["attn_config"] = std::move(attention);
  copy_number(model, "attention.layer_norm_epsilon", config, "layer_norm_epsilon");
}

void configure_neox(const GgufModel& model, json& config) {
  configure_llama(model, config);
  copy_rotated_part(model, config, "rotary_pct");
  if (const auto parallel = model.file().boolean(full_key(model, "use_parallel_residual")))
    config["use_parallel_residual"] = *parallel;
}

void configure_phi3(const GgufModel& model, json& config) {
  configure_windows(model, config);
  copy_rotated_part(model, config, "partial_rotary_factor");
}

void configure_qwen_moe(const GgufModel& model, json& config) {
  configure_llama(model, config);
  const bool qwen3 = config["model_type"] == "qwen3_moe";
  config["num_experts"] = gguf_require(model, "expert_count", 1, 1 << 16);
  config["num_experts_per_tok"] = gguf_require(model, "expert_used_count", 1, 1 << 16);
  copy_integer(model, "expert_feed_forward_length", config, "moe_intermediate_size");
  copy_integer(model, "expert_shared_feed_forward_length", config, "shared_expert_intermediate_size");
  if (config.contains("moe_intermediate_size")) config["intermediate_size"] = config["moe_intermediate_size"];
  config["norm_topk_prob"] = qwen3;
  config["decoder_sparse_step"] = 1;
  config["mlp_only_layers"] = json::array();
}

void configure_stablelm(const GgufModel& model, json& config) {
  configure_partial(model, config);
  config["use_qkv_bias"] = config["attention_bias"];
  config["use_parallel_residual"] = !has(model, "blk.0.ffn_norm.weight");
  config["qk_layernorm"] = has(model, "blk.0.attn_q_norm.weight");
}

void configure_starcoder2(const GgufModel& model, json& config) {
  configure_windows(model, config);
  copy_number(model, "attention.layer_norm_epsilon", config, "norm_epsilon");
}

json gguf_config(const GgufModel& model, const GgufArch& arch) {
  const GgufTensor* embedding = model.tensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2)
    model.file().fail("has no tensor 'token_embd.weight': it is no whole model");
  json config = {{"architectures", {arch.name}}, {"model_type", arch.model_type}};
  config["vocab_size"] = embedding->shape[0];
  config["tie_word_embeddings"] = !has(model, "output.weight");
  arch.configure(model, config);
  // What is computed in where matrices are codes: norms and small tensors are float32 in every file.
  const GgufTensor* down = model.tensor("blk.0.ffn_down.weight");
  if (embedding->type->coded() || (down != nullptr && down->type->coded())) config["torch_dtype"] = "float16";
  const auto id = [&](std::string_view key, const char* field) {
    if (const auto value = model.file().integer(key)) config[field] = *value;
  };
  id("tokenizer.ggml.bos_token_id", "bos_token_id");
  id("tokenizer.ggml.eos_token_id", "eos_token_id");
  return config;
}

json gguf_generation_config(const GgufModel& model) {
  const GgufFile& file = model.file();
  json ids = json::array();
  for (const std::string_view key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    const auto id = file.integer(key);
    if (id && std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
  }
  // Control symbols that end a turn in every vocabulary that has them; many files do not name theirs.
  constexpr std::array<std::string_view, 8> kEnds = {"<|eot_id|>",    "<|im_end|>",    "<|end|>",
                                                     "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
                                                     "<|eom_id|>",    "<|return|>"};
  constexpr int64_t kControl = 3;
  const auto types = file.integers("tokenizer.ggml.token_type");
  if (!types.empty()) {
    const auto tokens = file.texts("tokenizer.ggml.tokens");
    for (size_t i = 0; i < std::min(tokens.size(), types.size()); ++i) {
      if (types[i] != kControl || std::find(kEnds.begin(), kEnds.end(), tokens[i]) == kEnds.end()) continue;
      if (std::find(ids.begin(), ids.end(), i) == ids.end()) ids.push_back(i);
    }
  }
  json config = json::object();
  if (!ids.empty()) config["eos_token_id"] = std::move(ids);
  const auto setting = [&](std::string_view key, const char* field) {
    if (const auto value = file.number(key)) config[field] = *value;
  };
  setting("general.sampling.temp", "temperature");
  setting("general.sampling.top_p", "top_p");
  setting("general.sampling.min_p", "min_p");
  setting("general.sampling.penalty_repeat", "repetition_penalty");
  if (const auto top_k = file.integer("general.sampling.top_k")) config["top_k"] = *top_k;
  return config;
}

}  // namespace quire
