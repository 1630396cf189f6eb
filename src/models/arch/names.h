// Parts of name tables that many architectures share.
#pragma once

#include <array>
#include <string_view>

#include "models/weight_names.h"

namespace quire {

inline constexpr std::array<std::string_view, 2> kModelPrefixes = {"model.", ""};

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

// Embedding, attention and output of Llama and of what is named like it.
inline constexpr std::array<ModuleName, 6> kLlamaAttention = {{
    {Role::kEmbedding, "embed_tokens"},
    {Role::kQuery, "layers.{}.self_attn.q_proj"},
    {Role::kKey, "layers.{}.self_attn.k_proj"},
    {Role::kValue, "layers.{}.self_attn.v_proj"},
    {Role::kAttentionOut, "layers.{}.self_attn.o_proj"},
    {Role::kLmHead, "lm_head"},
}};
inline constexpr std::array<ModuleName, 1> kFinalNorm = {{{Role::kFinalNorm, "norm"}}};
inline constexpr std::array<ModuleName, 2> kUngatedMlp = {{
    {Role::kUp, "layers.{}.mlp.up_proj"},
    {Role::kDown, "layers.{}.mlp.down_proj"},
}};
inline constexpr std::array<ModuleName, 1> kMlpGate = {{{Role::kGate, "layers.{}.mlp.gate_proj"}}};
// With an MLP; kNoNorms is without the last norm, whose name others have otherwise.
inline constexpr auto kNoNorms = joined(kLlamaAttention, kMlpGate, kUngatedMlp);
inline constexpr auto kLlamaMatrices = joined(kNoNorms, kFinalNorm);

// One norm before attention, one before the MLP.
inline constexpr std::array<ModuleName, 2> kLlamaNorms = {{
    {Role::kInputNorm, "layers.{}.input_layernorm"},
    {Role::kMlpNorm, "layers.{}.post_attention_layernorm"},
}};

// Llama's names for a model whose MLP has no gates.
inline constexpr auto kPlainLlama = joined(kLlamaAttention, kUngatedMlp, kFinalNorm, kLlamaNorms);

// Latent attention (nn/mla.h).
inline constexpr std::array<ModuleName, 10> kLatentAttention = {{
    {Role::kQueryDown, "layers.{}.self_attn.q_a_proj"},
    {Role::kQueryDownNorm, "layers.{}.self_attn.q_a_layernorm"},
    {Role::kQuery, "layers.{}.self_attn.q_b_proj"},
    {Role::kQuery, "layers.{}.self_attn.q_proj"},
    {.role = Role::kLatent, .module = "layers.{}.self_attn.kv_a_proj_with_mqa", .order = RowOrder::kTurnLast},
    {Role::kLatentNorm, "layers.{}.self_attn.kv_a_layernorm"},
    {Role::kLatentUp, "layers.{}.self_attn.kv_b_proj"},
    {Role::kLatentKeys, "layers.{}.self_attn.k_b_proj"},
    {Role::kLatentValues, "layers.{}.self_attn.v_b_proj"},
    {Role::kAttentionOut, "layers.{}.self_attn.o_proj"},
}};
inline constexpr std::array<ModuleName, 2> kWords = {{
    {Role::kEmbedding, "embed_tokens"},
    {Role::kLmHead, "lm_head"},
}};
// Llama's names for a model with it.
inline constexpr auto kLatentModel =
    joined(kWords, kLatentAttention, kMlpGate, kUngatedMlp, kFinalNorm, kLlamaNorms);

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

// What layers get of each token besides the hidden states.
inline constexpr std::array<ModuleName, 6> kLayerInputs = {{
    {Role::kLayerInputTable, "embed_tokens_per_layer"},
    {Role::kLayerInputsProject, "per_layer_model_projection"},
    {Role::kLayerInputsNorm, "per_layer_projection_norm"},
    {Role::kLayerInputGate, "layers.{}.per_layer_input_gate"},
    {Role::kLayerInputProject, "layers.{}.per_layer_projection"},
    {Role::kLayerInputNorm, "layers.{}.post_per_layer_input_norm"},
}};
// Layers that read others' keys and values have theirs in the file all the same.
inline constexpr std::array<std::string_view, 4> kBorrowedKeys = {
    "layers.{}.self_attn.k_proj.weight", "layers.{}.self_attn.v_proj.weight",
    "layers.{}.self_attn.k_norm.weight", "layers.{}.self_attn.v_norm.weight"};

// Experts, each by itself or all in one tensor, and what chooses them.
inline constexpr std::array<ModuleName, 7> kExperts = {{
    {Role::kRouter, "layers.{}.mlp.gate"},
    {Role::kExpertGateUp, "layers.{}.mlp.experts.{}.gate_up_proj"},
    {Role::kExpertGate, "layers.{}.mlp.experts.{}.gate_proj"},
    {Role::kExpertUp, "layers.{}.mlp.experts.{}.up_proj"},
    {Role::kExpertDown, "layers.{}.mlp.experts.{}.down_proj"},
    {.role = Role::kExpertGateUp, .module = "layers.{}.mlp.experts.gate_up_proj", .bare = true},
    {.role = Role::kExpertDown, .module = "layers.{}.mlp.experts.down_proj", .bare = true},
}};

// The same as Mixtral calls them, in old and new files.
inline constexpr std::array<ModuleName, 7> kMixtralExperts = {{
    {Role::kRouter, "layers.{}.block_sparse_moe.gate"},
    {Role::kRouter, "layers.{}.mlp.gate"},
    {Role::kExpertGate, "layers.{}.block_sparse_moe.experts.{}.w1"},
    {Role::kExpertUp, "layers.{}.block_sparse_moe.experts.{}.w3"},
    {Role::kExpertDown, "layers.{}.block_sparse_moe.experts.{}.w2"},
    {.role = Role::kExpertGateUp, .module = "layers.{}.mlp.experts.gate_up_proj", .bare = true},
    {.role = Role::kExpertDown, .module = "layers.{}.mlp.experts.down_proj", .bare = true},
}};

// The expert that every row goes through, and the correction of the others' scores.
inline constexpr std::array<ModuleName, 4> kDeepseekShared = {{
    {.role = Role::kRouterCorrection, .module = "layers.{}.mlp.gate.e_score_correction_bias", .bare = true},
    {Role::kSharedExpertGate, "layers.{}.mlp.shared_experts.gate_proj"},
    {Role::kSharedExpertUp, "layers.{}.mlp.shared_experts.up_proj"},
    {Role::kSharedExpertDown, "layers.{}.mlp.shared_experts.down_proj"},
}};

// The expert that every row goes through, as Qwen calls it.
inline constexpr std::array<ModuleName, 4> kQwenShared = {{
    {Role::kSharedExpertGate, "layers.{}.mlp.shared_expert.gate_proj"},
    {Role::kSharedExpertUp, "layers.{}.mlp.shared_expert.up_proj"},
    {Role::kSharedExpertDown, "layers.{}.mlp.shared_expert.down_proj"},
    {Role::kSharedExpertRouter, "layers.{}.mlp.shared_expert_gate"},
}};

// Norms and MLP of Bamba and Jamba.
inline constexpr std::array<ModuleName, 6> kFeedForward = {{
    {Role::kInputNorm, "layers.{}.input_layernorm"},
    {Role::kMlpNorm, "layers.{}.pre_ff_layernorm"},
    {Role::kGate, "layers.{}.feed_forward.gate_proj"},
    {Role::kUp, "layers.{}.feed_forward.up_proj"},
    {Role::kDown, "layers.{}.feed_forward.down_proj"},
    {Role::kFinalNorm, "final_layernorm"},
}};

// Kimi delta attention as transformers calls it, but for its gates.
inline constexpr std::array<ModuleName, 11> kKimiDelta = {{
    {Role::kDeltaQuery, "layers.{}.self_attn.q_proj"},
    {Role::kDeltaKey, "layers.{}.self_attn.k_proj"},
    {Role::kDeltaValue, "layers.{}.self_attn.v_proj"},
    {Role::kDeltaShare, "layers.{}.self_attn.b_proj"},
    {.role = Role::kStepBias, .module = "layers.{}.self_attn.forget_gate.dt_bias", .bare = true},
    {.role = Role::kRate, .module = "layers.{}.self_attn.forget_gate.A_log", .bare = true},
    {Role::kStateConv, "layers.{}.self_attn.conv1d"},
    {Role::kStateConvQuery, "layers.{}.self_attn.q_conv1d"},
    {Role::kStateConvKey, "layers.{}.self_attn.k_conv1d"},
    {Role::kStateConvValue, "layers.{}.self_attn.v_conv1d"},
    {Role::kStateNorm, "layers.{}.self_attn.o_norm"},
}};

// Mamba 2 where it is all of a layer, and where it stands in attention's place.
inline constexpr std::array<ModuleName, 7> kMambaMixer = {{
    {Role::kStateIn, "layers.{}.mixer.in_proj"},
    {Role::kStateConv, "layers.{}.mixer.conv1d"},
    {.role = Role::kStepBias, .module = "layers.{}.mixer.dt_bias", .bare = true},
    {.role = Role::kRate, .module = "layers.{}.mixer.A_log", .bare = true},
    {.role = Role::kSkip, .module = "layers.{}.mixer.D", .bare = true},
    {Role::kStateNorm, "layers.{}.mixer.norm"},
    {Role::kStateOut, "layers.{}.mixer.out_proj"},
}};
inline constexpr std::array<ModuleName, 7> kMambaInLayer = {{
    {Role::kStateIn, "layers.{}.mamba.in_proj"},
    {Role::kStateConv, "layers.{}.mamba.conv1d"},
    {.role = Role::kStepBias, .module = "layers.{}.mamba.dt_bias", .bare = true},
    {.role = Role::kRate, .module = "layers.{}.mamba.A_log", .bare = true},
    {.role = Role::kSkip, .module = "layers.{}.mamba.D", .bare = true},
    {Role::kStateNorm, "layers.{}.mamba.norm"},
    {Role::kStateOut, "layers.{}.mamba.out_proj"},
}};

// What drafts further tokens.
inline constexpr std::array<std::string_view, 1> kDrafts = {"mtp.*"};

// Angle tables that old versions of transformers saved.
inline constexpr std::array<std::string_view, 4> kSavedAngles = {
    "layers.{}.self_attn.rotary_emb.inv_freq",
    "layers.{}.self_attn.rotary_emb.cos_cached",
    "layers.{}.self_attn.rotary_emb.sin_cached",
    "rotary_emb.inv_freq",
};

}  // namespace quire
