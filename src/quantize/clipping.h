// Rounds the weights of a matrix with the clipping, per group, that minimizes the error of its output for
// given inputs: the clipping search of AWQ (Lin et al., "AWQ: Activation-aware Weight Quantization",
// arXiv 2306.00978).
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "quant/int_rounding.h"

namespace quire {

// Rounds each group independently to nearest. Tries several widths of its range and uses the one with the
// smallest e H e^T, where e are the errors of the group's weights and H is its diagonal block of h. w [n, k];
// h [k, k], the sum of x x^T over the inputs.
IntMatrix round_to_products(ThreadPool& pool, const IntRounding& rounding, std::span<const float> w,
                            int64_t n, int64_t k, int64_t group_size, std::span<const float> h);

}  // namespace quire
