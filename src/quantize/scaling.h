// Factors for the inputs of matrices that make these easier to round, folded into what makes the inputs:
// AWQ (Lin et al., "AWQ: activation-aware weight quantization", arXiv 2306.00978, section 3.2) and
// SmoothQuant (Xiao et al., "SmoothQuant: accurate and efficient post-training quantization", arXiv
// 2211.10438, equation 4). Called by one thread, which works with the pool.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "models/linear_modules.h"
#include "quantize/layer_runner.h"
#include "quantize/overlay_checkpoint.h"
#include "quantize/target.h"

namespace quire {

// [k] positive factors for the columns of `matrices` ([n_i, k] each): powers of the inputs' mean size, the
// power that leaves the smallest error of the products when the matrices are rounded to nearest.
std::vector<float> awq_factors(ThreadPool& pool, const Target& target, const Checkpoint& checkpoint,
                               const std::vector<std::string>& matrices, const InputStats& stats);
// largest input ^ strength / largest weight ^ (1 - strength), column by column.
std::vector<float> smooth_factors(const Checkpoint& checkpoint, const std::vector<std::string>& matrices,
                                  const InputStats& stats, float strength);

// Multiplies the columns of input.matrices and divides their source; stats become those of the new inputs.
// A norm's weights stay what its type can say: factors are adapted to that. Returns the names of the tensors
// that were changed beside the matrices.
std::vector<std::string> apply_factors(OverlayCheckpoint& checkpoint, const ScalableInput& input,
                                       std::vector<float> factors, InputStats& stats);

}  // namespace quire
