// The layout of recurrent states in blocks. The states of a sequence are split into parts (the conv state of
// a layer, the matrix of a head), which fill one block after another.
#pragma once

#include <cstdint>
#include <vector>

#include "models/model_spec.h"
#include "nn/forward_batch.h"

namespace quire {

struct StateLayout {
  struct Layer {
    std::vector<StatePlace> inputs;      // [1], or empty
    std::vector<StatePlace> recurrence;  // [heads]
  };
  std::vector<Layer> layers;                 // [num_layers]
  std::vector<std::vector<int32_t>> blocks;  // for each block, the layers that have parts in it

  // The state of a layer, as a view that refers to this layout.
  LayerState view(int32_t layer, std::byte* base, int64_t block_stride) const;
};

// Bytes of all states of one sequence, and of their largest part. 0 = no recurrent layers.
int64_t state_bytes(const ModelSpec& spec);
int64_t largest_state_part(const ModelSpec& spec);
// bytes_per_block: at least the largest part.
StateLayout place_states(const ModelSpec& spec, int64_t bytes_per_block);

}  // namespace quire
