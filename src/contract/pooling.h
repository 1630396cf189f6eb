// A pooling request: its result is an embedding or scores for the whole prompt instead of generated tokens.
#pragma once

#include <cstdint>

#include "quire/pooling_params.h"

namespace quire {

// Task of a loaded model.
enum class ModelTask : uint8_t {
  kGenerate,  // text generation
  kEmbed,     // an embedding of the prompt
  kScore,     // classification or reranking: one score per label; a reranker has one label
};

struct PoolingRequest {
  PoolingParams params;
  int32_t second_text = 0;  // index of the first token of a pair's second text; 0 = not a pair
  // Pooling reads the hidden states of all tokens (mean pooling), so no prefix cache hit can skip any.
  bool all_tokens = true;
};

}  // namespace quire
