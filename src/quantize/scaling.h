// Scales the inputs of matrices to make weights or activations easier to quantize, and folds the inverse into
// the module that computes the inputs: AWQ (Lin et al., "AWQ: activation-aware weight quantization", arXiv
// 2306.00978, section 3.2) and SmoothQuant (Xiao et al., "SmoothQuant: accurate and efficient post-training
// quantization", arXiv 2211.10438, equation 4). Called by one thread, which works with the pool.
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

// Returns [k] positive factors for the columns of `matrices` ([n_i, k] each): powers of the mean magnitude of
// the inputs. The exponent minimizes the error of the products after rounding to nearest.
std::vector<float> awq_factors(ThreadPool& pool, const Target& target, const Checkpoint& checkpoint,
                               const std::vector<std::string>& matrices, const InputStats& stats);
// Per column: largest input ^ strength / largest weight ^ (1 - strength).
std::vector<float> smooth_factors(const Checkpoint& checkpoint, const std::vector<std::string>& matrices,
                                  const InputStats& stats, float strength);

// Multiplies the columns of input.matrices by the factors, divides their source by them, and updates stats
// for the new inputs. Weights of norms keep their type, and factors are adjusted to its rounding. Returns the
// names of the changed tensors other than the matrices.
std::vector<std::string> apply_factors(OverlayCheckpoint& checkpoint, const ScalableInput& input,
                                       std::vector<float> factors, InputStats& stats);

}  // namespace quire
