// Divides the rows of an op into ranges for the thread pool.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"
#include "ops/op_table.h"

namespace quire {

inline int num_threads(const OpContext& ctx) {
  return ctx.pool == nullptr ? 1 : ctx.pool->num_threads();
}

// Calls f(begin, end, thread) for disjoint ranges that cover [0, n).
template <typename F>
void parallel_ranges(const OpContext& ctx, int64_t n, int64_t grain, F&& f, Ranges ranges = Ranges::kEven) {
  if (n <= 0) return;
  if (ctx.pool == nullptr || n <= grain) {
    f(int64_t{0}, n, 0);
  } else {
    ctx.pool->parallel_for(n, grain, f, ranges);
  }
}

// Rows per range if a row costs `row_cost` element operations, so that the cost of scheduling a range is
// negligible.
inline int64_t row_grain(int64_t row_cost) {
  constexpr int64_t kRangeCost = 16384;
  return std::max<int64_t>(1, kRangeCost / std::max<int64_t>(1, row_cost));
}

}  // namespace quire
