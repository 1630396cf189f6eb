// What the architectures' files give to the registry, and what they share.
#pragma once

#include "models/arch_spec.h"
#include "models/config_reader.h"
#include "models/weight_names.h"

namespace quire {

ArchSpec parse_llama(const ConfigReader& config);
ArchSpec parse_mistral(const ConfigReader& config);
ArchSpec parse_qwen2(const ConfigReader& config);
ArchSpec parse_qwen3(const ConfigReader& config);
ArchSpec parse_gpt2(const ConfigReader& config);

WeightNames llama_weight_names();
WeightNames qwen3_weight_names();
WeightNames gpt2_weight_names();

// What the Llama family's configurations have in common: sizes, norm, activation, rotary positions, token
// ids. head_dim and max_position_embeddings: what an absent field means (head_dim 0: hidden_size /
// num_attention_heads).
struct LlamaDefaults {
  int32_t head_dim = 0;
  int64_t max_position_embeddings = 2048;
};
ArchSpec parse_llama_family(const ConfigReader& config, const LlamaDefaults& defaults);

// Sliding windows as Qwen2 and Qwen3 write them: off unless use_sliding_window; then by `layer_types`, or
// from layer max_window_layers on.
void read_qwen_windows(const ConfigReader& config, ArchSpec& spec);

// rope_theta, rope_scaling and rope_parameters, in their old and new spellings. Sets spec.rope and
// spec.max_model_len; wants head_dim and max_position_embeddings.
void read_rope(const ConfigReader& config, ArchSpec& spec);

// A name of transformers' activation table. Throws Error naming the field and the names that are supported.
Activation read_activation(const ConfigReader& config, std::string_view field, std::string_view fallback);

// Limits that no model comes near; they keep products of sizes within 64 bits.
inline constexpr int64_t kMaxSize = int64_t{1} << 24;
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxPositions = int64_t{1} << 30;

}  // namespace quire
