// Shared by all integer products: activations as int8 or as int8 slices, grouped into blocks of rows, and the
// partitioning of blocks and panels for the thread pool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cpu/kernels.h"
#include "backends/cpu/split.h"
#include "ops/parallel.h"

namespace quire::cpu {

// Divides rows into blocks of nearly equal size: 16 rows are 8 + 8, not 12 + 4.
struct Blocks {
  int64_t rows;
  int64_t count;
  int64_t block_rows;  // maximum number of rows of a block

  Blocks(int64_t num_rows, int64_t max_rows)
      : rows(num_rows), count((num_rows + max_rows - 1) / max_rows), block_rows(max_rows) {}
  int64_t first(int64_t block) const { return rows * block / count; }
  int64_t size(int64_t block) const { return first(block + 1) - first(block); }
};

// Workspace for converted rows of activations, and the number of rows that fit into it.
struct RowRoom {
  std::byte* begin = nullptr;  // aligned to 64
  int64_t max_rows = 0;
};
// Space for up to m rows of row_bytes each. Throws Error if not even one row fits.
RowRoom row_room(std::span<std::byte> workspace, int64_t row_bytes, int64_t m);
// Bytes of workspace per row of activations.
int64_t int_row_bytes(int64_t depth, int64_t num_units, int64_t slices);

// Sets codes, scales, totals and sums of `in` for `rows` rows in memory at `begin`; the caller has set the
// other fields.
void place_activations(int64_t rows, std::byte* begin, IntActivations& in);
// The same, and quantizes the rows of `in`. flat: for tile registers (CpuKernels::linear_int_tiles).
void quantize_activations(const CpuKernels& kernels, const OpContext& ctx, const Blocks& blocks,
                          std::byte* begin, IntActivations& in, bool flat = false);
// IntActivations::depth of activations for tile registers.
int64_t flat_depth(int64_t k);

// Calls kernel(blocks, panel, panel_end, thread) for ranges of blocks and panels that cover all of them.
// element_bytes: size of an activation element with its slices.
template <class F>
void each_chunk(const OpContext& ctx, const Blocks& blocks, const ProductSize& size, int64_t element_bytes,
                F&& kernel) {
  // Activations of one chunk of rows; half of a typical L2 cache.
  constexpr int64_t kChunkBytes = int64_t{512} << 10;
  constexpr int64_t kRangesPerThread = 16;
  const int64_t panels = panels_to_cut(size);
  // A chunk of rows is multiplied by all columns before the next chunk starts, so that its activations stay
  // in L2 while the weights stream past. Chunks become smaller only if the columns alone do not occupy all
  // threads.
  int64_t chunk =
      std::clamp<int64_t>(kChunkBytes / (size.k * element_bytes * blocks.block_rows), 4, kMaxIntBlocks);
  chunk = std::min(chunk, blocks.count);
  while (chunk > 2 && panels * ((blocks.count + chunk - 1) / chunk) < 4 * num_threads(ctx))
    chunk = (chunk + 1) / 2;
  const int64_t chunks = (blocks.count + chunk - 1) / chunk;
  // A range has consecutive panels, so that each panel can prefetch the next one. Ranges are short enough
  // that threads finish at nearly the same time.
  const int64_t cost = std::max<int64_t>(1, blocks.rows / chunks) * kPanel * size.k;
  const int64_t run = panels * chunks / (kRangesPerThread * num_threads(ctx));
  parallel_ranges(
      ctx, panels * chunks, std::max<int64_t>({1, run, 262144 / cost}),
      [&](int64_t begin, int64_t end, int thread) {
        // With one block, all gate panels of a range come before its up panels, so that each is a single
        // stream. With several blocks, gates and ups alternate, so that the gate results stay in L2.
        const int64_t max_panels = blocks.count == 1 ? panels : 1;
        for (int64_t item = begin; item < end;) {
          const int64_t first = item / panels * chunk;
          const IntBlocks some = {blocks.rows, blocks.count, first, std::min(blocks.count - first, chunk)};
          const int64_t taken = std::min({max_panels, end - item, panels - item % panels});
          each_half(size, item % panels, item % panels + taken,
                    [&](int64_t from, int64_t to) { kernel(some, from, to, thread); });
          item += taken;
        }
      },
      Ranges::kLongFirst);
}

// kernel(blocks, from, to) for panels [begin, end) of panels_to_cut and all blocks, in the order of
// each_chunk.
template <class F>
void each_panel(const Blocks& blocks, const ProductSize& size, int64_t begin, int64_t end, F&& kernel) {
  const int64_t step = blocks.count == 1 ? end - begin : 1;
  for (int64_t panel = begin; panel < end; panel += step) {
    for (int64_t first = 0; first < blocks.count; first += kMaxIntBlocks) {
      const IntBlocks some = {blocks.rows, blocks.count, first,
                              std::min(blocks.count - first, kMaxIntBlocks)};
      each_half(size, panel, panel + step, [&](int64_t from, int64_t to) { kernel(some, from, to); });
    }
  }
}

// Calls kernel(block, panel) for some blocks and panels.
template <class F>
void each_block_of(const Blocks& blocks, const IntBlocks& some, int64_t panel, int64_t panel_end,
                   F&& kernel) {
  for (; panel < panel_end; ++panel) {
    for (int64_t b = 0; b < some.num; ++b)
      kernel(IntBlock{blocks.first(some.first + b), blocks.size(some.first + b), b, some.num}, panel);
  }
}

// Calls kernel(block, panel) for all blocks and panels.
template <class F>
void each_block(const OpContext& ctx, const Blocks& blocks, const ProductSize& size, int64_t element_bytes,
                F&& kernel) {
  each_chunk(ctx, blocks, size, element_bytes,
             [&](const IntBlocks& some, int64_t panel, int64_t panel_end, int) {
               each_block_of(blocks, some, panel, panel_end, kernel);
             });
}

}  // namespace quire::cpu
