// Parts of name tables that several architectures share.
#pragma once

#include <array>
#include <string_view>

#include "models/arch/row_layouts.h"
#include "models/model_param_ids.h"
#include "models/tensor_names.h"
#include "nn/alt_up_spec.h"
#include "nn/attention_spec.h"
#include "nn/compressed_attention_spec.h"
#include "nn/delta_net_spec.h"
#include "nn/hyper_connection_spec.h"
#include "nn/indexer_spec.h"
#include "nn/mamba1_spec.h"
#include "nn/mla_spec.h"
#include "nn/mlp_spec.h"
#include "nn/moe_spec.h"
#include "nn/per_layer_input_spec.h"
#include "nn/recurrent_spec.h"
#include "nn/shared_block_spec.h"

namespace quire {

// Parameters that checkpoints may store in one tensor.
inline constexpr ParamIds kQkvParams{attention::kQProj, attention::kKProj, attention::kVProj};
inline constexpr ParamIds kGateUpParams{mlp::kGateProj, mlp::kUpProj};
inline constexpr ParamIds kExpertGateUpParams{moe::kExpertGateProj, moe::kExpertUpProj};
inline constexpr ParamIds kSharedGateUpParams{moe::kSharedGateProj, moe::kSharedUpProj};
inline constexpr ParamIds kDeltaQkvParams{delta_net::kQProj, delta_net::kKProj, delta_net::kVProj};
inline constexpr ParamIds kDeltaQkvzParams{delta_net::kQProj, delta_net::kKProj, delta_net::kVProj,
                                           recurrent::kGProj};
inline constexpr ParamIds kDeltaBaParams{delta_net::kBProj, delta_net::kAProj};
inline constexpr ParamIds kDeltaConvParams{delta_net::kQConv1d, delta_net::kKConv1d, delta_net::kVConv1d};

inline constexpr std::array<std::string_view, 2> kModelPrefixes = {"model.", ""};

// Concatenates tables.
template <size_t... kSizes>
constexpr auto joined(const std::array<TensorName, kSizes>&... tables) {
  std::array<TensorName, (kSizes + ...)> all{};
  size_t at = 0;
  const auto take = [&](const auto& table) {
    for (const TensorName& row : table) all[at++] = row;
  };
  (take(tables), ...);
  return all;
}

// Llama's names of embeddings, attention and output.
inline constexpr std::array<TensorName, 6> kLlamaAttention = {{
    {model::kEmbedTokens, "embed_tokens"},
    {attention::kQProj, "layers.{}.self_attn.q_proj"},
    {attention::kKProj, "layers.{}.self_attn.k_proj"},
    {attention::kVProj, "layers.{}.self_attn.v_proj"},
    {attention::kOProj, "layers.{}.self_attn.o_proj"},
    {model::kLmHead, "lm_head"},
}};
inline constexpr std::array<TensorName, 1> kFinalNorm = {{{model::kFinalNorm, "norm"}}};
inline constexpr std::array<TensorName, 2> kUngatedMlp = {{
    {mlp::kUpProj, "layers.{}.mlp.up_proj"},
    {mlp::kDownProj, "layers.{}.mlp.down_proj"},
}};
inline constexpr std::array<TensorName, 1> kMlpGate = {{{mlp::kGateProj, "layers.{}.mlp.gate_proj"}}};
// With an MLP. kNoNorms has no final norm, for models in which it has another name.
inline constexpr auto kNoNorms = joined(kLlamaAttention, kMlpGate, kUngatedMlp);
inline constexpr auto kLlamaMatrices = joined(kNoNorms, kFinalNorm);

// One norm before attention, one before the MLP.
inline constexpr std::array<TensorName, 2> kLlamaNorms = {{
    {layer::kInputNorm, "layers.{}.input_layernorm"},
    {layer::kMlpNorm, "layers.{}.post_attention_layernorm"},
}};

// Llama's names for a model with an ungated MLP.
inline constexpr auto kPlainLlama = joined(kLlamaAttention, kUngatedMlp, kFinalNorm, kLlamaNorms);

// Latent attention (nn/mla.cc).
inline constexpr std::array<TensorName, 10> kLatentAttention = {{
    {mla::kQAProj, "layers.{}.self_attn.q_a_proj"},
    {mla::kQANorm, "layers.{}.self_attn.q_a_layernorm"},
    {mla::kQProj, "layers.{}.self_attn.q_b_proj"},
    {mla::kQProj, "layers.{}.self_attn.q_proj"},
    {.params = mla::kKvAProj,
     .module = "layers.{}.self_attn.kv_a_proj_with_mqa",
     .row_layout = rope_after_latent},
    {mla::kKvANorm, "layers.{}.self_attn.kv_a_layernorm"},
    {mla::kKvBProj, "layers.{}.self_attn.kv_b_proj"},
    {mla::kKBProj, "layers.{}.self_attn.k_b_proj"},
    {mla::kVBProj, "layers.{}.self_attn.v_b_proj"},
    {mla::kOProj, "layers.{}.self_attn.o_proj"},
}};
inline constexpr std::array<TensorName, 2> kWords = {{
    {model::kEmbedTokens, "embed_tokens"},
    {model::kLmHead, "lm_head"},
}};
// Llama's names for a model with latent attention.
inline constexpr auto kLatentModel =
    joined(kWords, kLatentAttention, kMlpGate, kUngatedMlp, kFinalNorm, kLlamaNorms);

// Norms after attention and MLP.
inline constexpr std::array<TensorName, 2> kPostNorms = {{
    {layer::kPostAttentionNorm, "layers.{}.post_attention_layernorm"},
    {layer::kPostMlpNorm, "layers.{}.post_feedforward_layernorm"},
}};

// QK norm.
inline constexpr std::array<TensorName, 2> kQkNorms = {{
    {attention::kQNorm, "layers.{}.self_attn.q_norm"},
    {attention::kKNorm, "layers.{}.self_attn.k_norm"},
}};

// Per-layer embeddings (nn/per_layer_input.h).
inline constexpr std::array<TensorName, 6> kLayerInputs = {{
    {per_layer::kEmbedTokens, "embed_tokens_per_layer"},
    {per_layer::kModelProjection, "per_layer_model_projection"},
    {per_layer::kProjectionNorm, "per_layer_projection_norm"},
    {per_layer::kInputGate, "layers.{}.per_layer_input_gate"},
    {per_layer::kProjection, "layers.{}.per_layer_projection"},
    {per_layer::kNorm, "layers.{}.post_per_layer_input_norm"},
}};
// Layers that share the KV cache of another layer have unused projections in the checkpoint.
inline constexpr std::array<std::string_view, 4> kBorrowedKeys = {
    "layers.{}.self_attn.k_proj.weight", "layers.{}.self_attn.v_proj.weight",
    "layers.{}.self_attn.k_norm.weight", "layers.{}.self_attn.v_norm.weight"};

// Router and experts, stored separately or stacked.
inline constexpr std::array<TensorName, 7> kMoeExperts = {{
    {moe::kRouter, "layers.{}.mlp.gate"},
    {kExpertGateUpParams, "layers.{}.mlp.experts.{}.gate_up_proj"},
    {moe::kExpertGateProj, "layers.{}.mlp.experts.{}.gate_proj"},
    {moe::kExpertUpProj, "layers.{}.mlp.experts.{}.up_proj"},
    {moe::kExpertDownProj, "layers.{}.mlp.experts.{}.down_proj"},
    {.params = kExpertGateUpParams, .module = "layers.{}.mlp.experts.gate_up_proj", .bare = true},
    {.params = moe::kExpertDownProj, .module = "layers.{}.mlp.experts.down_proj", .bare = true},
}};

// Mixtral's names of the same, in old and new checkpoints.
inline constexpr std::array<TensorName, 7> kMixtralExperts = {{
    {moe::kRouter, "layers.{}.block_sparse_moe.gate"},
    {moe::kRouter, "layers.{}.mlp.gate"},
    {moe::kExpertGateProj, "layers.{}.block_sparse_moe.experts.{}.w1"},
    {moe::kExpertUpProj, "layers.{}.block_sparse_moe.experts.{}.w3"},
    {moe::kExpertDownProj, "layers.{}.block_sparse_moe.experts.{}.w2"},
    {.params = kExpertGateUpParams, .module = "layers.{}.mlp.experts.gate_up_proj", .bare = true},
    {.params = moe::kExpertDownProj, .module = "layers.{}.mlp.experts.down_proj", .bare = true},
}};

// DeepSeek's names of the shared expert and of the correction bias of the router.
inline constexpr std::array<TensorName, 4> kDeepseekShared = {{
    {.params = moe::kCorrectionBias, .module = "layers.{}.mlp.gate.e_score_correction_bias", .bare = true},
    {moe::kSharedGateProj, "layers.{}.mlp.shared_experts.gate_proj"},
    {moe::kSharedUpProj, "layers.{}.mlp.shared_experts.up_proj"},
    {moe::kSharedDownProj, "layers.{}.mlp.shared_experts.down_proj"},
}};

// Qwen's names of the shared expert.
inline constexpr std::array<TensorName, 4> kQwenShared = {{
    {moe::kSharedGateProj, "layers.{}.mlp.shared_expert.gate_proj"},
    {moe::kSharedUpProj, "layers.{}.mlp.shared_expert.up_proj"},
    {moe::kSharedDownProj, "layers.{}.mlp.shared_expert.down_proj"},
    {moe::kSharedExpertGate, "layers.{}.mlp.shared_expert_gate"},
}};

// Norms and MLP of Bamba and Jamba.
inline constexpr std::array<TensorName, 6> kFeedForward = {{
    {layer::kInputNorm, "layers.{}.input_layernorm"},
    {layer::kMlpNorm, "layers.{}.pre_ff_layernorm"},
    {mlp::kGateProj, "layers.{}.feed_forward.gate_proj"},
    {mlp::kUpProj, "layers.{}.feed_forward.up_proj"},
    {mlp::kDownProj, "layers.{}.feed_forward.down_proj"},
    {model::kFinalNorm, "final_layernorm"},
}};

// Kimi delta attention with the names that transformers writes, without its gates.
inline constexpr std::array<TensorName, 11> kKimiDelta = {{
    {delta_net::kQProj, "layers.{}.self_attn.q_proj"},
    {delta_net::kKProj, "layers.{}.self_attn.k_proj"},
    {delta_net::kVProj, "layers.{}.self_attn.v_proj"},
    {delta_net::kBProj, "layers.{}.self_attn.b_proj"},
    {.params = recurrent::kDtBias, .module = "layers.{}.self_attn.forget_gate.dt_bias", .bare = true},
    {.params = recurrent::kALog, .module = "layers.{}.self_attn.forget_gate.A_log", .bare = true},
    {kDeltaConvParams, "layers.{}.self_attn.conv1d"},
    {delta_net::kQConv1d, "layers.{}.self_attn.q_conv1d"},
    {delta_net::kKConv1d, "layers.{}.self_attn.k_conv1d"},
    {delta_net::kVConv1d, "layers.{}.self_attn.v_conv1d"},
    {recurrent::kNorm, "layers.{}.self_attn.o_norm"},
}};

// Mamba 2 in models of recurrent layers only, and in hybrid models.
inline constexpr std::array<TensorName, 7> kMambaMixer = {{
    {recurrent::kInProj, "layers.{}.mixer.in_proj"},
    {recurrent::kConv1d, "layers.{}.mixer.conv1d"},
    {.params = recurrent::kDtBias, .module = "layers.{}.mixer.dt_bias", .bare = true},
    {.params = recurrent::kALog, .module = "layers.{}.mixer.A_log", .bare = true},
    {.params = recurrent::kD, .module = "layers.{}.mixer.D", .bare = true},
    {recurrent::kNorm, "layers.{}.mixer.norm"},
    {recurrent::kOutProj, "layers.{}.mixer.out_proj"},
}};
inline constexpr std::array<TensorName, 7> kMambaInLayer = {{
    {recurrent::kInProj, "layers.{}.mamba.in_proj"},
    {recurrent::kConv1d, "layers.{}.mamba.conv1d"},
    {.params = recurrent::kDtBias, .module = "layers.{}.mamba.dt_bias", .bare = true},
    {.params = recurrent::kALog, .module = "layers.{}.mamba.A_log", .bare = true},
    {.params = recurrent::kD, .module = "layers.{}.mamba.D", .bare = true},
    {recurrent::kNorm, "layers.{}.mamba.norm"},
    {recurrent::kOutProj, "layers.{}.mamba.out_proj"},
}};

// Multi-token prediction.
inline constexpr std::array<std::string_view, 1> kDrafts = {"mtp.*"};

// RoPE tables that old versions of transformers saved.
inline constexpr std::array<std::string_view, 4> kSavedAngles = {
    "layers.{}.self_attn.rotary_emb.inv_freq",
    "layers.{}.self_attn.rotary_emb.cos_cached",
    "layers.{}.self_attn.rotary_emb.sin_cached",
    "rotary_emb.inv_freq",
};

}  // namespace quire
