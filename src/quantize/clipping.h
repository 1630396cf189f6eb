// Codes whose groups are cut where that makes the products of the matrix with its inputs the nearest (Lin et
// al., "AWQ: activation-aware weight quantization", arXiv 2306.00978, its search for clipping). Free
// function; works with the pool.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "quant/int_rounding.h"

namespace quire {

// Each group by itself, to nearest: of some widths of its range the one with the smallest e H e^T, e being
// the errors of the group's weights and H its part of h. w [n, k]; h [k, k], the sum of x x^T over the
// inputs.
IntMatrix round_to_products(ThreadPool& pool, const IntRounding& rounding, std::span<const float> w,
                            int64_t n, int64_t k, int64_t group_size, std::span<const float> h);

}  // namespace quire
