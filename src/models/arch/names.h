// Parts of name tables that many architectures share.
#pragma once

#include <array>
#include <string_view>

#include "models/weight_names.h"

namespace quire {

inline constexpr std::array<std::string_view, 2> kModelPrefixes = {"model.", ""};

// Projections, embedding and output of Llama and of what is named like it. Its norms have names of their own.
inline constexpr std::array<ModuleName, 10> kLlamaMatrices = {{
    {Role::kEmbedding, "embed_tokens"},
    {Role::kQuery, "layers.{}.self_attn.q_proj"},
    {Role::kKey, "layers.{}.self_attn.k_proj"},
    {Role::kValue, "layers.{}.self_attn.v_proj"},
    {Role::kAttentionOut, "layers.{}.self_attn.o_proj"},
    {Role::kGate, "layers.{}.mlp.gate_proj"},
    {Role::kUp, "layers.{}.mlp.up_proj"},
    {Role::kDown, "layers.{}.mlp.down_proj"},
    {Role::kFinalNorm, "norm"},
    {Role::kLmHead, "lm_head"},
}};

// One norm before attention, one before the MLP.
inline constexpr std::array<ModuleName, 2> kLlamaNorms = {{
    {Role::kInputNorm, "layers.{}.input_layernorm"},
    {Role::kMlpNorm, "layers.{}.post_attention_layernorm"},
}};

// Norms of what attention and MLP give.
inline constexpr std::array<ModuleName, 2> kPostNorms = {{
    {Role::kPostAttentionNorm, "layers.{}.post_attention_layernorm"},
    {Role::kPostMlpNorm, "layers.{}.post_feedforward_layernorm"},
}};

// Norms of queries and keys.
inline constexpr std::array<ModuleName, 2> kQkNorms = {{
    {Role::kQueryNorm, "layers.{}.self_attn.q_norm"},
    {Role::kKeyNorm, "layers.{}.self_attn.k_norm"},
}};

// Angle tables that old versions of transformers saved.
inline constexpr std::array<std::string_view, 4> kSavedAngles = {
    "layers.{}.self_attn.rotary_emb.inv_freq",
    "layers.{}.self_attn.rotary_emb.cos_cached",
    "layers.{}.self_attn.rotary_emb.sin_cached",
    "rotary_emb.inv_freq",
};

// One table of all the rows.
template <size_t... kSizes>
constexpr auto joined(const std::array<ModuleName, kSizes>&... tables) {
  std::array<ModuleName, (kSizes + ...)> all{};
  size_t at = 0;
  const auto take = [&](const auto& table) {
    for (const ModuleName& row : table) all[at++] = row;
  };
  (take(tables), ...);
  return all;
}

}  // namespace quire
