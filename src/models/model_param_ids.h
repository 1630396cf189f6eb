// Names of the parameters that belong to the decoder itself: embeddings, norms, output. Plain data.
#pragma once

#include "nn/param_id.h"

namespace quire {

namespace model {
inline constexpr ParamId kEmbedTokens{"embed_tokens"};
inline constexpr ParamId kEmbedNorm{"embed_norm"};
inline constexpr ParamId kTokenTypeEmbeddings{"token_type_embeddings"};
inline constexpr ParamId kTaskTypeEmbeddings{"task_type_embeddings"};
inline constexpr ParamId kEmbedProjIn{"embed_project_in"};
inline constexpr ParamId kEmbedProjOut{"embed_project_out"};
inline constexpr ParamId kPositionEmbeddings{"position_embeddings"};
inline constexpr ParamId kFinalNorm{"norm"};
inline constexpr ParamId kLmHead{"lm_head"};
inline constexpr ParamId kLmHeadBias{"lm_head_bias"};
inline constexpr ParamId kHeadDense{"head_dense"};
inline constexpr ParamId kHeadNorm{"head_norm"};

// A checkpoint has the prefix under which this parameter is found.
inline constexpr ParamId kPrefixed = kEmbedTokens;
// The first of these that a checkpoint has tells its number format, if config.json does not.
inline constexpr ParamId kTyped[] = {kFinalNorm, kEmbedTokens};
}  // namespace model

namespace layer {
inline constexpr ParamId kInputNorm{"layer.input_layernorm"};
inline constexpr ParamId kPostAttentionNorm{"layer.post_attention_layernorm"};
inline constexpr ParamId kMlpNorm{"layer.pre_feedforward_layernorm"};
inline constexpr ParamId kPostMlpNorm{"layer.post_feedforward_layernorm"};
inline constexpr ParamId kScalar{"layer.layer_scalar"};
}  // namespace layer

}  // namespace quire
