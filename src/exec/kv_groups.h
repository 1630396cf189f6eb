// Divides the layers of a model into KV groups: layers that keep the same part of a sequence's past share
// block tables. All groups allocate from one pool, so their blocks have the same size in bytes. Pure
// functions, called when a model is loaded or inspected.
#pragma once

#include <cstdint>

#include "contract/kv_layout.h"
#include "models/model_spec.h"
#include "tensor/dtype.h"

namespace quire {

// The recurrent states of one sequence fill at most about this many blocks. If keys and values are so small
// that they would fill more, a block holds more tokens than block_size (a multiple of it). So the last,
// partly filled block of a sequence wastes at most a fixed fraction of the sequence's memory.
inline constexpr int64_t kMaxStateBlocks = 32;

// The layout for a model; num_blocks is 0. Groups are in this order: full attention, sliding windows and
// chunks, recurrent states. A layer with kv_sharing_target_layer is in no group: it reads the blocks of that
// layer.
//
// Layers of one kind are split into several groups where that lets one block size fit all kinds (a group of 3
// full layers next to 5 groups of 3 sliding window layers). The split minimizes padding for sequences of
// max_model_len tokens and for short ones, and the number of groups.
KvLayout make_kv_layout(const ModelSpec& spec, DType dtype, int32_t block_size);

}  // namespace quire
