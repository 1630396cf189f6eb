// The tokens of one step as flat arrays, in which prompt chunks and single new tokens are mixed. Views only;
// the executor owns the arrays and builds them once per step.
#pragma once

#include <cstdint>
#include <span>

#include "ops/op_table.h"

namespace quire {

// Recurrent state of one layer; the views are empty if the layer has none.
struct LayerState {
  StateView inputs;      // the last inputs of the convolution (conv state)
  StateView recurrence;  // one matrix per head
};

struct ForwardBatch {
  std::span<const int32_t> token_ids;         // [num_tokens], each in [0, vocab_size)
  std::span<const int32_t> positions;         // [num_tokens], each in [0, max_model_len)
  std::span<const int32_t> token_types = {};  // [num_tokens]; read by models with token types only
  std::span<const int64_t> slot_mapping;      // [num_tokens] block id * block_size + offset; -1 = not stored
  AttentionBatch attention;                   // cu_seqlens_q ends at num_tokens
  std::span<const KvCacheView> kv;            // [num_layers]
  StateBatch states;                          // for models with recurrent layers
  std::span<const LayerState> layer_states;   // [num_layers], or empty

  int64_t num_tokens() const { return static_cast<int64_t>(token_ids.size()); }
};

}  // namespace quire
