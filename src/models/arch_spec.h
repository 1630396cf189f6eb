// Everything a decoder needs to know of its model besides the weights, as plain data. Made from config.json
// by the architecture's own file in models/arch.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nn/layers.h"
#include "nn/rope.h"
#include "ops/op_table.h"

namespace quire {

enum class PositionKind : uint8_t { kRope, kLearned };

// What differs from layer to layer.
struct LayerSpec {
  int32_t window = 0;            // sliding window in tokens, the token itself included; 0: full attention
  float attention_scale = 1.0F;  // multiplies q.k
};

struct ArchSpec {
  std::string architecture;  // "LlamaForCausalLM"
  std::string model_type;    // "llama"

  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int32_t num_layers = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  std::vector<LayerSpec> layers;  // [num_layers]

  NormKind norm = NormKind::kRms;
  float norm_eps = 1e-6F;
  float norm_weight_offset = 0.0F;

  Activation activation = Activation::kSilu;
  bool gated_mlp = true;
  bool qkv_bias = false;
  bool out_bias = false;  // of attention's output projection
  bool mlp_bias = false;
  bool qk_norm = false;  // RMS norm of each query and key head

  PositionKind position = PositionKind::kRope;
  RopeSpec rope;                        // kRope
  int64_t max_position_embeddings = 0;  // as config.json says
  int64_t max_model_len = 0;  // tokens of a sequence the model is made for, its rope scaling counted in

  bool tie_word_embeddings = false;
  float attention_softcap = 0.0F;  // 0: none
  float logit_scale = 1.0F;
  float logit_softcap = 0.0F;  // 0: none

  std::optional<int32_t> bos_token_id;
  std::vector<int32_t> eos_token_ids;  // of config.json; generation_config.json may say otherwise
};

// Throws Error "config.json: …" naming the field that is missing, wrong or absurd, or the architecture that
// is not supported and those that are.
ArchSpec parse_arch(const nlohmann::json& config);

}  // namespace quire
