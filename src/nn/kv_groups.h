// The block tables of a step for models whose layers are in several KV groups. Views only; the executor owns
// the arrays and builds them once per step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nn/forward_batch.h"

namespace quire {

// Where the layers of one group find and store keys and values. The groups of a batch differ in their blocks
// only; sequences and lengths are the same.
struct KvGroupBatch {
  std::span<const int64_t> slot_mapping;  // [num_tokens] block id * block_size + offset
  AttentionBatch attention;  // block tables; ids of blocks that no row attends to may be -1 or stale
};

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
