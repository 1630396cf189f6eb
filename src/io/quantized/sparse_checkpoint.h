// Checkpoints of pruned models, as compressed-tensors packs them (sparse-bitmask, sparse-24-bitmask): for
// each module `compressed`, the weights that were kept, one behind the other; `bitmask` uint8 [n, k / 8],
// which they are, the lowest bit first; `shape` int64, two numbers; and `row_offsets`, which is not needed.
// Load time only; one thread.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "io/checkpoint.h"

namespace quire {

// The same checkpoint with weights as they were before they were packed, zeros between those that were kept;
// one is in memory from its bytes() to its release(). As it is where `config`, the quantization_config, has
// no such `sparsity_config`. Throws Error that names the tensor at fault, or the format where it is another.
std::unique_ptr<Checkpoint> with_sparse(std::unique_ptr<Checkpoint> files, const nlohmann::json& config);

}  // namespace quire
