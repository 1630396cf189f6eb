// The tokens of one step, flat and mixed: parts of prompts and single new tokens side by side. Views only;
// the executor owns what they look at and builds it once a step.
#pragma once

#include <cstdint>
#include <span>

#include "ops/op_table.h"

namespace quire {

// What one layer carries along a sequence besides keys and values; empty views: nothing.
struct LayerState {
  StateView inputs;      // the last inputs of its convolution
  StateView recurrence;  // its matrices, one for each head
};

struct ForwardBatch {
  std::span<const int32_t> token_ids;         // [num_tokens], each in [0, vocab_size)
  std::span<const int32_t> positions;         // [num_tokens], each in [0, max_model_len)
  std::span<const int32_t> token_types = {};  // [num_tokens] of models that have types, else not read
  std::span<const int64_t> slot_mapping;      // [num_tokens] block id * block_size + offset; -1: not stored
  AttentionBatch attention;                   // cu_seqlens_q ends at num_tokens
  std::span<const KvCacheView> kv;            // [num_layers]
  StateBatch states;                          // of models with layers that carry states
  std::span<const LayerState> layer_states;   // [num_layers], or empty

  int64_t num_tokens() const { return static_cast<int64_t>(token_ids.size()); }
};

}  // namespace quire
