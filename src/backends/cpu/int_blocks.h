// What products of whole numbers have in common: rows of activations as int8, or in digits of int8, in
// blocks, and how blocks and panels are cut into pieces for the pool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cpu/kernels.h"
#include "backends/cpu/split.h"
#include "ops/parallel.h"

namespace quire::cpu {

// How rows are cut into blocks of nearly one size: 16 rows are 8 + 8 and not 12 + 4.
struct Blocks {
  int64_t rows;
  int64_t count;

  Blocks(int64_t num_rows, int64_t most) : rows(num_rows), count((num_rows + most - 1) / most) {}
  int64_t first(int64_t block) const { return rows * block / count; }
  int64_t size(int64_t block) const { return first(block + 1) - first(block); }
};

// Where rows of activations go that a product needs in another form, and how many of them at once.
struct RowRoom {
  std::byte* begin = nullptr;  // at a multiple of 64
  int64_t most = 0;
};
// Of m rows of so many bytes each. Throws Error where the workspace holds none.
RowRoom row_room(std::span<std::byte> workspace, int64_t row_bytes, int64_t m);
// What a row of activations takes.
int64_t int_row_bytes(int64_t depth, int64_t num_units, int64_t digits);

// Fills codes, scales, totals and sums of `in`, which names the rest, with memory from `begin` on.
void quantize_activations(const CpuKernels& kernels, const OpContext& ctx, const Blocks& blocks,
                          std::byte* begin, IntActivations& in);

// kernel(blocks, panel, panel_end, thread) for runs of blocks, and of panels, that cover all of them.
// element_bytes: of the activations.
template <class F>
void each_chunk(const OpContext& ctx, const CpuKernels& kernels, const Blocks& blocks,
                const ProductSize& size, int64_t element_bytes, F&& kernel) {
  // Activations that are multiplied with all columns before the next ones: half of a second-level cache.
  constexpr int64_t kChunkBytes = int64_t{512} << 10;
  constexpr int64_t kRangesPerThread = 16;
  const int64_t panels = panels_to_cut(size);
  // All columns of a chunk of rows follow each other: the activations stay in the second-level cache, and the
  // weights that pass by are few beside the work. Chunks are smaller only where the columns alone do not
  // occupy the threads.
  int64_t chunk =
      std::clamp<int64_t>(kChunkBytes / (size.k * element_bytes * kernels.int_block_rows), 4, kMaxIntBlocks);
  chunk = std::min(chunk, blocks.count);
  while (chunk > 2 && panels * ((blocks.count + chunk - 1) / chunk) < 4 * num_threads(ctx))
    chunk = (chunk + 1) / 2;
  const int64_t chunks = (blocks.count + chunk - 1) / chunk;
  // Panels of a range follow each other, so that each can ask for the next one; ranges are short enough that
  // threads do not wait for each other at the end.
  const int64_t cost = std::max<int64_t>(1, blocks.rows / chunks) * kPanel * size.k;
  const int64_t run = panels * chunks / (kRangesPerThread * num_threads(ctx));
  parallel_ranges(
      ctx, panels * chunks, std::max<int64_t>({1, run, 262144 / cost}),
      [&](int64_t begin, int64_t end, int thread) {
        // One block: all gates of a range, then their ups, each a single stream. Of many the gates that wait
        // stay in the second-level cache.
        const int64_t most = blocks.count == 1 ? panels : 1;
        for (int64_t item = begin; item < end;) {
          const int64_t first = item / panels * chunk;
          const IntBlocks some = {blocks.rows, blocks.count, first, std::min(blocks.count - first, chunk)};
          const int64_t taken = std::min({most, end - item, panels - item % panels});
          each_half(size, item % panels, item % panels + taken,
                    [&](int64_t from, int64_t to) { kernel(some, from, to, thread); });
          item += taken;
        }
      },
      Ranges::kLongFirst);
}

// kernel(block, panel) for all blocks and panels.
template <class F>
void each_block(const OpContext& ctx, const CpuKernels& kernels, const Blocks& blocks,
                const ProductSize& size, int64_t element_bytes, F&& kernel) {
  each_chunk(ctx, kernels, blocks, size, element_bytes,
             [&](const IntBlocks& of, int64_t panel, int64_t panel_end, int) {
               for (; panel < panel_end; ++panel) {
                 for (int64_t b = 0; b < of.num; ++b)
                   kernel(IntBlock{blocks.first(of.first + b), blocks.size(of.first + b), b, of.num}, panel);
               }
             });
}

}  // namespace quire::cpu
