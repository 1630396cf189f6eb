#include "backends/cpu/int_blocks.h"

#include "base/error.h"
#include "base/strings.h"

namespace quire::cpu {

RowRoom row_room(std::span<std::byte> workspace, int64_t row_bytes, int64_t m) {
  constexpr int64_t kAlign = 64;
  const int64_t max_rows = (static_cast<int64_t>(workspace.size()) - kAlign) / row_bytes;
  if (m > 0 && max_rows <= 0) {
    throw Error(
        cat("linear: a workspace of ", row_bytes + kAlign, " bytes is needed; got ", workspace.size()));
  }
  return {workspace.data() + (kAlign - reinterpret_cast<uintptr_t>(workspace.data()) % kAlign) % kAlign,
          max_rows};
}

int64_t int_row_bytes(int64_t depth, int64_t num_units, int64_t slices) {
  return slices * depth + num_units * (2 * static_cast<int64_t>(sizeof(float)) +
                                       slices * static_cast<int64_t>(sizeof(int32_t)));
}

int64_t flat_depth(int64_t k) {
  constexpr int64_t kLine = 64;
  constexpr int64_t kPast = 8;  // bytes that quantize_flat may write after a row
  // An odd number of cache lines, so that the rows of a block map to different cache sets.
  return ((k + kPast + kLine - 1) / kLine | 1) * kLine;
}

void place_activations(int64_t rows, std::byte* begin, IntActivations& in) {
  in.codes = reinterpret_cast<int8_t*>(begin);
  in.scales = reinterpret_cast<float*>(in.codes + rows * in.slices * in.depth);
  in.totals = in.scales + rows * in.num_units;
  in.sums = reinterpret_cast<int32_t*>(in.totals + rows * in.num_units);
}

void quantize_activations(const CpuKernels& kernels, const OpContext& ctx, const Blocks& blocks,
                          std::byte* begin, IntActivations& in, bool flat) {
  place_activations(blocks.rows, begin, in);
  const auto round = flat             ? kernels.quantize_flat
                     : in.slices == 1 ? kernels.quantize_rows
                                      : kernels.split_rows;
  parallel_ranges(ctx, blocks.count, row_grain(blocks.block_rows * in.slices * in.k),
                  [&](int64_t first, int64_t end, int) {
                    for (int64_t b = first; b < end; ++b) round(in, blocks.first(b), blocks.size(b));
                  });
}

}  // namespace quire::cpu
