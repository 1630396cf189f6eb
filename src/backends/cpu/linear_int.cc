// Weights as whole numbers: packing, products, rows out of them, over the pool.
#include <algorithm>
#include <array>
#include <vector>

#include "backends/cpu/drivers.h"
#include "base/error.h"
#include "base/strings.h"
#include "ops/checks.h"
#include "ops/parallel.h"
#include "quant/int_layout.h"

namespace quire::cpu {
namespace {

static_assert(kPanel == IntLayout::kPanel);

// Activations that are multiplied with all columns before the next ones: half of a second-level cache.
constexpr int64_t kChunkBytes = int64_t{512} << 10;
constexpr int64_t kRangesPerThread = 16;

IntKind kind_of(const IntLayout& at) {
  if (at.step == 8) return at.zero_points ? kInt4Zeros : kInt4;
  return at.row_scale ? kInt8Rows : kInt8Groups;
}

int32_t zero_of(const CpuKernels& kernels, IntKind kind) {
  if (kind == kInt4Zeros) return 1;  // times the group's own
  return kind == kInt4 ? 8 : kernels.int8_zero;
}

// How rows are cut into blocks of nearly one size: 16 rows are 8 + 8 and not 12 + 4.
struct Blocks {
  int64_t rows;
  int64_t count;

  Blocks(int64_t num_rows, int64_t most) : rows(num_rows), count((num_rows + most - 1) / most) {}
  int64_t first(int64_t block) const { return rows * block / count; }
  int64_t size(int64_t block) const { return first(block + 1) - first(block); }
};

void multiply(const CpuKernels& kernels, const OpContext& ctx, const IntLinearArgs& args, IntKind kind,
              bool float_activations, const Blocks& blocks) {
  const auto kernel = float_activations ? kernels.linear_int_float[kind] : kernels.linear_int[kind];
  const int64_t panels = (args.n + kPanel - 1) / kPanel;
  // All columns of a chunk of rows follow each other: the activations stay in the second-level cache, and the
  // weights that pass by are few beside the work. Chunks are smaller only where the columns alone do not
  // occupy the threads.
  const int64_t row_bytes =
      args.in.k * static_cast<int64_t>(float_activations ? sizeof(float) : sizeof(int8_t));
  int64_t chunk = std::clamp<int64_t>(kChunkBytes / (row_bytes * kernels.int_block_rows), 4, 32);
  chunk = std::min(chunk, blocks.count);
  while (chunk > 2 && panels * ((blocks.count + chunk - 1) / chunk) < 4 * num_threads(ctx))
    chunk = (chunk + 1) / 2;
  const int64_t chunks = (blocks.count + chunk - 1) / chunk;
  // Panels of a range follow each other, so that each can ask for the next one; ranges are short enough that
  // threads do not wait for each other at the end.
  const int64_t cost = std::max<int64_t>(1, blocks.rows / chunks) * kPanel * args.in.k;
  const int64_t run = panels * chunks / (kRangesPerThread * num_threads(ctx));
  parallel_ranges(
      ctx, panels * chunks, std::max<int64_t>({1, run, 262144 / cost}), [&](int64_t begin, int64_t end, int) {
        for (int64_t item = begin; item < end; ++item) {
          const int64_t first = item / panels * chunk;
          const int64_t count = std::min(blocks.count - first, chunk);
          for (int64_t b = 0; b < count; ++b)
            kernel(args, {blocks.first(first + b), blocks.size(first + b), b, count}, item % panels);
        }
      });
}

// Where a panel's rows lie in the parts of a matrix; null behind the last one.
struct PanelRows {
  std::array<const void*, kPanel> rows = {};
  std::array<Storage, kPanel> storage = {};

  PanelRows(std::span<const TensorView> parts, int64_t first) {
    int64_t begin = 0;  // the part's first row in the whole
    for (const TensorView& part : parts) {
      const int64_t end = begin + part.rows();
      for (int64_t row = std::max(first, begin); row < std::min(first + kPanel, end); ++row) {
        const auto at = static_cast<size_t>(row - first);
        rows[at] = part.as<std::byte>() +
                   (row - begin) * part.row_stride * static_cast<int64_t>(dtype_size(part.dtype));
        storage[at] = storage_of(part.dtype);
      }
      begin = end;
    }
  }
};

// Bytes of the workspace that a row of activations takes as int8.
int64_t row_bytes(const IntLayout& at) {
  return at.depth + at.num_units * static_cast<int64_t>(sizeof(float) + sizeof(int32_t));
}

}  // namespace

PackedLinear pack_linear_int(const CpuKernels& kernels, const OpContext& ctx,
                             std::span<const TensorView> parts, WeightFormat format) {
  PackedLinear packed = make_packed(parts, format, kPanel);
  const IntLayout at(format, packed.k);
  const IntCandidates candidates = int_candidates(format.code_bits, format.zero_points);
  std::vector<Buffer> scratch;
  for (int t = 0; t < num_threads(ctx); ++t)
    scratch.emplace_back(static_cast<size_t>(packed.k * kPanel) * sizeof(float));
  parallel_ranges(ctx, at.num_panels(packed.n), 1, [&](int64_t begin, int64_t end, int thread) {
    float* weights = scratch[static_cast<size_t>(thread)].as<float>();
    for (int64_t p = begin; p < end; ++p) {
      PanelRows panel(parts, p * kPanel);
      kernels.pack_panel(weights, kStorageF32, panel.rows.data(), panel.storage.data(), packed.k);
      kernels.pack_int({.weights = weights,
                        .dst = packed.data.data() + p * at.panel_bytes,
                        .k = at.k,
                        .group = at.group,
                        .step = at.step,
                        .header_bytes = at.header_bytes,
                        .group_bytes = at.group_bytes,
                        .row_scale = at.row_scale,
                        .zero_points = at.zero_points,
                        .candidates = candidates.steps,
                        .num_candidates = candidates.count,
                        .low = candidates.low,
                        .high = candidates.high});
    }
  });
  return packed;
}

void linear_int(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
                const PackedLinear& w, const TensorView& residual) {
  const IntLayout at(w.format, w.k);
  const IntKind kind = kind_of(at);
  const bool float_activations = w.format.activations == ActivationFormat::kFloat;
  const int64_t m = x.rows();
  const auto room = static_cast<int64_t>(ctx.workspace.size()) - 64;
  const int64_t most = float_activations ? m : room / row_bytes(at);
  if (m > 0 && most <= 0) {
    throw Error(
        cat("linear: a workspace of ", row_bytes(at) + 64, " bytes is needed; got ", ctx.workspace.size()));
  }
  std::byte* scratch =
      ctx.workspace.data() + (64 - reinterpret_cast<uintptr_t>(ctx.workspace.data()) % 64) % 64;

  for (int64_t first = 0; first < m; first += most) {
    const int64_t rows = std::min(most, m - first);
    const Blocks blocks(rows, kernels.int_block_rows);
    IntLinearArgs args = {
        .in = {.x = x.row<float>(first),
               .x_stride = x.row_stride,
               .k = at.k,
               .depth = at.depth,
               .group = at.activation_group,
               .unit = at.unit,
               .num_units = at.num_units,
               .zero = zero_of(kernels, kind)},
        .weights = w.data.data(),
        .panel_bytes = at.panel_bytes,
        .group_bytes = at.group_bytes,
        .header_bytes = at.header_bytes,
        .group = at.group,
        .n = w.n,
        .out = out.row<float>(first),
        .out_stride = out.row_stride,
        .residual = residual.data != nullptr ? residual.row<float>(first) : nullptr,
        .residual_stride = residual.row_stride,
        .bias = w.bias.size() > 0 ? w.bias.as<float>() : nullptr,
    };
    if (!float_activations) {
      args.in.codes = reinterpret_cast<int8_t*>(scratch);
      args.in.scales = reinterpret_cast<float*>(args.in.codes + rows * at.depth);
      args.in.sums = reinterpret_cast<int32_t*>(args.in.scales + rows * at.num_units);
      parallel_ranges(ctx, blocks.count, row_grain(kernels.int_block_rows * at.k),
                      [&](int64_t begin, int64_t end, int) {
                        for (int64_t b = begin; b < end; ++b)
                          kernels.quantize_rows(args.in, blocks.first(b), blocks.size(b));
                      });
    }
    multiply(kernels, ctx, args, kind, float_activations, blocks);
  }
}

}  // namespace quire::cpu
