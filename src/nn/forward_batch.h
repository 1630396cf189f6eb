// The tokens of one step as flat arrays, in which prompt chunks and single new tokens are mixed. Views only;
// the executor owns the arrays and builds them once per step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nn/adapter.h"
#include "ops/op_table.h"

namespace quire {

// Recurrent state of one layer; the views are empty if the layer has none.
struct LayerState {
  StateView inputs;      // the last inputs of the convolution (conv state)
  StateView recurrence;  // one matrix per head
};

// Arrays of a batch in memory of the host, for decisions that depend on them. On a device that shares the
// host's memory, they are the arrays of the batch.
struct HostBatch {
  std::span<const int32_t> token_ids;     // [num_tokens]
  std::span<const int32_t> positions;     // [num_tokens]
  std::span<const int64_t> slot_mapping;  // [num_tokens]; of one KV group
  std::span<const int32_t> seq_lens;      // [num_seqs]
};

// A step table (nn/step_tables.h); one of the two is empty.
struct StepTableView {
  std::span<const int32_t> narrow;
  std::span<const int64_t> wide;
};

// The spans are in memory of the device, except for those of `host` and the views per layer.
struct ForwardBatch {
  std::span<const int32_t> token_ids;         // [num_tokens], each in [0, vocab_size)
  std::span<const int32_t> positions;         // [num_tokens], each in [0, max_model_len)
  std::span<const int32_t> token_types = {};  // [num_tokens]; read by models with token types only
  std::span<const int64_t> slot_mapping;      // [num_tokens] block id * block_size + offset; -1 = not stored
  AttentionBatch attention;                   // cu_seqlens_q ends at num_tokens
  std::span<const KvCacheView> kv;            // [num_layers]
  StateBatch states;                          // for models with recurrent layers
  std::span<const LayerState> layer_states;   // [num_layers], or empty
  const AdapterRows* adapters = nullptr;      // the adapters of all tokens; null = none
  std::span<const StepTableView> tables;      // as Model::step_tables()
  HostBatch host;

  int64_t num_tokens() const { return static_cast<int64_t>(token_ids.size()); }
};

// Where the layers of one group find and store keys and values. The groups of a batch differ in their blocks
// only; sequences and lengths are the same.
struct KvGroupBatch {
  std::span<const int64_t> slot_mapping;  // [num_tokens] block id * block_size + offset
  AttentionBatch attention;  // block tables; ids of blocks that no row attends to may be -1 or stale
};

// The block tables of a step for models whose layers are in several KV groups.
struct KvGroupBatches {
  std::span<const KvGroupBatch> groups;  // [num_groups]; empty = all layers use the batch's own arrays
  std::span<const int32_t> group_of_layer = {};  // the group that stores the keys and values of each layer

  // `batch` with slot_mapping and attention of the group of `layer`.
  ForwardBatch select(const ForwardBatch& batch, size_t layer) const {
    ForwardBatch out = batch;
    if (groups.empty()) return out;
    // Layers after the last one that caches keys and values read none.
    const int32_t index = layer < group_of_layer.size() ? group_of_layer[layer] : 0;
    const KvGroupBatch& group = groups[static_cast<size_t>(index)];
    out.slot_mapping = group.slot_mapping;
    out.attention = group.attention;
    return out;
  }
};

}  // namespace quire
