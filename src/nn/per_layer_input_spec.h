// Per-layer embeddings (Gemma 3n): parameter names. Plain data.
#pragma once

#include <cstdint>

#include "nn/param_id.h"
#include "ops/op_table.h"

namespace quire {

namespace per_layer {
inline constexpr ParamId kEmbedTokens{"per_layer.embed_tokens_per_layer"};
inline constexpr ParamId kModelProjection{"per_layer.per_layer_model_projection"};
inline constexpr ParamId kProjectionNorm{"per_layer.per_layer_projection_norm"};
inline constexpr ParamId kInputGate{"per_layer.per_layer_input_gate"};
inline constexpr ParamId kProjection{"per_layer.per_layer_projection"};
inline constexpr ParamId kNorm{"per_layer.post_per_layer_input_norm"};
}  // namespace per_layer

struct PerLayerInputSpec {
  int64_t size = 0;
  int64_t vocab_size = 0;  // token ids from this one on use the vector of token 0
  Activation activation = Activation::kGeluTanh;
};

}  // namespace quire
