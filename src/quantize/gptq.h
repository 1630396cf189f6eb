// GPTQ: columns of a matrix are rounded one after the other, and what each has lost is made good by those
// that are not rounded yet, as far as the inputs that the matrix meets allow it (Frantar et al., "GPTQ:
// accurate post-training quantization for generative pre-trained transformers", arXiv 2210.17323, algorithm
// 1). Free functions; the pool's threads work on rows of their own, so that results do not depend on their
// number.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "quant/int_rounding.h"

namespace quire {

// The upper triangular U with U^T U = (H + damp * mean(diagonal) * 1)^-1; [k, k] row by row, zeros below. H
// [k, k] is the sum of x x^T over the inputs x; inputs that never were anything but 0 stand for themselves.
// In float64. Throws Error where H is not finite.
std::vector<float> inverse_factor(ThreadPool& pool, std::span<const float> h, int64_t k, double damp);

struct GptqOptions {
  double damp = 0.01;     // part of the mean of H's diagonal that is added to it
  bool act_order = true;  // inputs that are largest first; groups stay columns side by side
};

// w [n, k], h [k, k].
IntMatrix round_gptq(ThreadPool& pool, const IntRounding& rounding, std::span<const float> w, int64_t n,
                     int64_t k, int64_t group_size, std::span<const float> h, const GptqOptions& options);

}  // namespace quire
