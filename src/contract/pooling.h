// A request whose result is one vector of the whole prompt in place of further tokens.
#pragma once

#include <cstdint>

#include "quire/pooling_params.h"

namespace quire {

// What a loaded model gives.
enum class ModelTask : uint8_t {
  kGenerate,  // further tokens
  kEmbed,     // a vector of the prompt
  kScore,     // a number for each of its labels; a reranker has one
};

struct PoolingRequest {
  PoolingParams params;
  int32_t second_text = 0;  // tokens from here on are of the second text of a pair; 0: there is one text
  // The vector is made of all tokens' hidden states: they have to be computed, whatever a cache holds.
  bool all_tokens = true;
};

}  // namespace quire
