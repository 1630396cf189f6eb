// Partitions a product with float activations into pieces for the thread pool.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels.h"
#include "ops/parallel.h"

namespace quire::cpu {

struct ProductSize {
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t panel_bytes;  // size of a packed panel
  bool gated;           // LinearArgs::gate
};

// Panels to partition; the panels of ups go to the thread that has their gates.
inline int64_t panels_to_cut(const ProductSize& size) {
  const int64_t panels = (size.n + kPanel - 1) / kPanel;
  return size.gated ? panels / 2 : panels;
}

// kernel(begin, end) for panels [begin, end) of panels_to_cut, then for the ups of these gates.
template <class F>
void each_half(const ProductSize& size, int64_t begin, int64_t end, F&& kernel) {
  kernel(begin, end);
  if (size.gated) kernel(size.n / kPanel / 2 + begin, size.n / kPanel / 2 + end);
}

// A thread prepares this many elements of activations faster than it could wake the others.
constexpr int64_t kPreparedAlone = 16384;
// Rows for which kernels read the weights in a single pass.
constexpr int64_t kFewRows = 12;

// Panels of a range of a product of few rows, which memory limits, if `panels` are divided: runs are long,
// because each starts with a cache miss, but not so long that threads do not finish together.
inline int64_t few_rows_run(const OpContext& ctx, int64_t m, int64_t k, int64_t panel_bytes, int64_t panels) {
  constexpr int64_t kRangeCost = 131072;
  constexpr int64_t kRunBytes = 1 << 20;
  const int64_t min_run = kRangeCost / (m * kPanel * k);
  const int64_t max_run = kRunBytes / panel_bytes;
  return std::max<int64_t>(1, std::max(min_run, std::min(max_run, panels / (16 * num_threads(ctx)))));
}

// kernel(from, to) for panels [begin, end) of panels_to_cut and all rows of a small product.
template <class F>
void each_few(const ProductSize& size, int64_t begin, int64_t end, F&& kernel) {
  const int64_t step = size.m <= kFewRows ? end - begin : 2;
  for (int64_t panel = begin; panel < end; panel += step)
    each_half(size, panel, std::min(end, panel + step), kernel);
}

// kernel(row, row_end, panel, panel_end) for pieces that cover all rows and panels.
template <class F>
void split_product(const OpContext& ctx, const ProductSize& size, F&& kernel) {
  constexpr int64_t kRows = 192;
  constexpr int64_t kRangeCost = 131072;
  const int64_t m = size.m;
  const int64_t panels = panels_to_cut(size);
  const int64_t threads = num_threads(ctx);
  if (m <= kFewRows) {
    // Shorter towards the end.
    parallel_ranges(
        ctx, panels, few_rows_run(ctx, m, size.k, size.panel_bytes, panels),
        [&](int64_t begin, int64_t end, int) {
          each_half(size, begin, end, [&](int64_t from, int64_t to) { kernel(0, m, from, to); });
        },
        Ranges::kLongFirst);
    return;
  }
  const int64_t width = panels < 4 * threads ? 1 : 2;
  // All columns of a chunk of rows are computed in sequence: the activations stay in L2, and the weights that
  // are read are few compared with the arithmetic. Chunks are smaller only if the columns do not keep all
  // threads busy.
  const int64_t columns = (panels + width - 1) / width;
  int64_t rows = std::min(m, kRows);
  while (rows > 24 && columns * ((m + rows - 1) / rows) < 4 * threads) rows = (rows + 1) / 2;
  const int64_t chunks = (m + rows - 1) / rows;
  // Chunks of nearly equal size, in full blocks of rows, so that all threads finish together.
  constexpr int64_t kBlock = 6;
  rows = std::min(rows, ((m + chunks - 1) / chunks + kBlock - 1) / kBlock * kBlock);
  const int64_t cost = rows * width * kPanel * size.k;
  // A thread gets several consecutive columns: it prefetches the weights of the next ones while it
  // multiplies.
  const int64_t run = std::min<int64_t>(8, columns * chunks / (8 * threads));
  parallel_ranges(ctx, columns * chunks, std::max({int64_t{1}, run, kRangeCost / cost}),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t item = begin; item < end; ++item) {
                      const int64_t panel = item % columns * width;
                      const int64_t row = item / columns * rows;
                      each_half(size, panel, std::min(panels, panel + width), [&](int64_t from, int64_t to) {
                        kernel(row, std::min(m, row + rows), from, to);
                      });
                    }
                  });
}

}  // namespace quire::cpu
