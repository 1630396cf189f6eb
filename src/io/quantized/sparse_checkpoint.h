// Pruned checkpoints in the formats of compressed-tensors (sparse-bitmask, sparse-24-bitmask). Tensors of
// each module: `compressed`, the nonzero weights, concatenated; `bitmask` uint8 [n, k / 8], their positions,
// lowest bit first; `shape` int64, two values; and `row_offsets`, which is unused. Load time only;
// single-threaded.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "io/checkpoint.h"

namespace quire {

// The same checkpoint with dense weights. A weight is in memory from its bytes() to its release(). Returns
// `files` unchanged if `config`, the quantization_config, has no `sparsity_config`. Throws Error with the
// tensor, or with the unsupported format.
std::unique_ptr<Checkpoint> with_sparse(std::unique_ptr<Checkpoint> files, const nlohmann::json& config);

}  // namespace quire
