// Where the states that layers carry along a sequence lie: cut into parts (a convolution's inputs, a head's
// matrix), which fill blocks one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "models/arch_spec.h"
#include "nn/forward_batch.h"

namespace quire {

struct StateLayout {
  struct Layer {
    std::vector<StatePlace> inputs;      // [1], or empty
    std::vector<StatePlace> recurrence;  // [heads]
  };
  std::vector<Layer> layers;                 // [num_layers]
  std::vector<std::vector<int32_t>> blocks;  // of each block, the layers that have parts in it

  // What a layer reads and writes; looks at this layout.
  LayerState view(int32_t layer, std::byte* base, int64_t block_stride) const;
};

// All states of one sequence, and the largest part of them, in bytes. 0: there are none.
int64_t state_bytes(const ArchSpec& spec);
int64_t largest_state_part(const ArchSpec& spec);
// bytes_per_block: at least the largest part.
StateLayout place_states(const ArchSpec& spec, int64_t bytes_per_block);

}  // namespace quire
