// Weights as whole numbers: packing, products, rows out of them, over the pool.
#include <algorithm>
#include <array>
#include <vector>

#include "backends/cpu/drivers.h"
#include "backends/cpu/int_blocks.h"
#include "ops/checks.h"
#include "ops/parallel.h"
#include "quant/int_layout.h"

namespace quire::cpu {
namespace {

static_assert(kPanel == IntLayout::kPanel);
static_assert(kMaxIntFactors == IntLayout::kMaxFactors);

IntKind kind_of(const IntLayout& at) {
  if (at.factor_group > 0) return kInt4Factors;
  if (at.step == 8) return at.zero_points ? kInt4Zeros : kInt4;
  return at.row_scale ? kInt8Rows : kInt8Groups;
}

int32_t zero_of(const CpuKernels& kernels, IntKind kind) {
  if (kind == kInt4Zeros) return 1;  // times the group's own
  return kind == kInt4 || kind == kInt4Factors ? 8 : kernels.int8_zero;
}

// k's whose products a kernel sums before it does anything else with them.
int64_t unit_of(const IntLayout& at) {
  return at.factor_group > 0 ? std::min(at.factor_group, at.unit) : at.unit;
}
int64_t units_of(const IntLayout& at) {
  return (at.k + unit_of(at) - 1) / unit_of(at);
}

// Rows from which on codes of 4 bits with factors become codes of 8 bits first: for fewer, that takes longer
// than it saves.
constexpr int64_t kSpreadRows = 48;

// What they become.
WeightFormat spread_format(WeightFormat format) {
  format.code_bits = 8;
  format.factor_group = 0;
  return format;
}

// Of a panel of them, for each thread. They are written eight k's at a time, which may be four more than
// there are.
int64_t place_bytes(const IntLayout& wide) {
  return (wide.panel_bytes + 4 * kPanel + 63) / 64 * 64;
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

}  // namespace

PackedLinear pack_linear_int(const CpuKernels& kernels, const OpContext& ctx,
                             std::span<const TensorView> parts, WeightFormat format) {
  PackedLinear packed = make_packed(parts, format, packed_bytes);
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
                        .factor_group = at.factor_group,
                        .factors_at = IntLayout::kFactorsAt,
                        .largest_factor = static_cast<float>(IntLayout::kLargestFactor),
                        .candidates = candidates.steps,
                        .num_candidates = candidates.count,
                        .low = candidates.low,
                        .high = candidates.high});
    }
  });
  return packed;
}

namespace {

IntLinearArgs make_args(const CpuKernels& kernels, const IntLayout& at, const TensorView& out,
                        const TensorView& x, const PackedLinear& w, const TensorView& residual,
                        int64_t first) {
  return {
      .in = {.x = x.row<float>(first),
             .x_stride = x.row_stride,
             .k = at.k,
             .depth = at.depth,
             .group = at.activation_group,
             .unit = unit_of(at),
             .num_units = units_of(at),
             .digits = 1,
             .zero = zero_of(kernels, kind_of(at))},
      .weights = w.data.data(),
      .panel_bytes = at.panel_bytes,
      .group_bytes = at.group_bytes,
      .header_bytes = at.header_bytes,
      .group = at.group,
      .factors_at = IntLayout::kFactorsAt,
      .next = nullptr,
      .n = w.n,
      .out = out.row<float>(first),
      .out_stride = out.row_stride,
      .residual = residual.data != nullptr ? residual.row<float>(first) : nullptr,
      .residual_stride = residual.row_stride,
      .bias = w.bias.size() > 0 ? w.bias.as<float>() : nullptr,
      .gate = gate_of(kernels, w),
  };
}

// Many rows by codes of 4 bits with factors: each panel becomes codes of 8 bits in a thread's own place, and
// the rows meet these. A unit's sum is the same whole number. activations: where those of `rows` rows go.
void multiply_spread(const CpuKernels& kernels, const OpContext& ctx, const IntLayout& at,
                     const IntLayout& wide, const IntLinearArgs& args, int64_t rows, std::byte* places,
                     std::byte* activations) {
  IntLinearArgs shared = args;
  shared.in.unit = wide.unit;
  shared.in.num_units = wide.num_units;
  shared.in.zero = kernels.int8_zero;
  shared.panel_bytes = wide.panel_bytes;
  shared.group_bytes = wide.group_bytes;
  shared.header_bytes = wide.header_bytes;
  const Blocks blocks(rows, kernels.int_block_rows);
  quantize_activations(kernels, ctx, blocks, activations, shared.in);
  const ProductSize size = {
      .m = rows, .n = args.n, .k = at.k, .panel_bytes = at.panel_bytes, .gated = args.gate.apply != nullptr};
  each_chunk(ctx, kernels, blocks, size, sizeof(int8_t),
             [&](const IntBlocks& of, int64_t panel, int64_t panel_end, int thread) {
               std::byte* place = places + thread * place_bytes(wide);
               IntLinearArgs own = shared;
               for (; panel < panel_end; ++panel) {
                 const std::byte* from = args.weights + panel * at.panel_bytes;
                 kernels.spread_factors({.from = from,
                                         .k = at.k,
                                         .group = at.group,
                                         .factor_group = at.factor_group,
                                         .factors_at = IntLayout::kFactorsAt,
                                         .header_bytes = at.header_bytes,
                                         .group_bytes = at.group_bytes,
                                         .to = place,
                                         .to_header_bytes = wide.header_bytes,
                                         .to_group_bytes = wide.group_bytes});
                 own.weights = place - panel * wide.panel_bytes;
                 own.next = from + at.panel_bytes;
                 for (int64_t b = 0; b < of.num; ++b)
                   kernels.linear_int[kInt8Groups](
                       own, {blocks.first(of.first + b), blocks.size(of.first + b), b, of.num}, panel);
               }
             });
}

}  // namespace

size_t int_workspace_bytes(const CpuKernels& kernels, int threads) {
  constexpr int64_t kRows = int64_t{8} << 20;
  // Of rows of up to 16,000 elements; where they are longer, codes are multiplied as they are.
  constexpr int64_t kPlace = int64_t{512} << 10;
  return static_cast<size_t>(kRows + (kernels.spread_factors != nullptr ? threads * kPlace : 0));
}

void linear_int(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
                const PackedLinear& w, const TensorView& residual) {
  const IntLayout at(w.format, w.k);
  const IntKind kind = kind_of(at);
  const bool float_activations = w.format.activations == ActivationFormat::kFloat;
  const int64_t m = x.rows();
  const int64_t row_bytes = int_row_bytes(at.depth, units_of(at), 1);
  if (kind == kInt4Factors && kernels.spread_factors != nullptr && m >= kSpreadRows) {
    const IntLayout wide(spread_format(w.format), w.k);
    const int64_t places = num_threads(ctx) * place_bytes(wide);
    // Where places do not leave room for rows, codes are multiplied as they are.
    if (static_cast<int64_t>(ctx.workspace.size()) > places + kSpreadRows * row_bytes + 64) {
      const RowRoom room = row_room(ctx.workspace.subspan(static_cast<size_t>(places)), row_bytes, m);
      std::byte* begin = room.begin - places;
      for (int64_t first = 0; first < m; first += room.most) {
        const IntLinearArgs args = make_args(kernels, at, out, x, w, residual, first);
        multiply_spread(kernels, ctx, at, wide, args, std::min(room.most, m - first), begin, room.begin);
      }
      return;
    }
  }
  const RowRoom scratch = float_activations ? RowRoom{.most = m} : row_room(ctx.workspace, row_bytes, m);
  for (int64_t first = 0; first < m; first += scratch.most) {
    const int64_t rows = std::min(scratch.most, m - first);
    const Blocks blocks(rows, kernels.int_block_rows);
    IntLinearArgs args = make_args(kernels, at, out, x, w, residual, first);
    if (!float_activations) quantize_activations(kernels, ctx, blocks, scratch.begin, args.in);
    const auto kernel = float_activations ? kernels.linear_int_float[kind] : kernels.linear_int[kind];
    const auto bytes = static_cast<int64_t>(float_activations ? sizeof(float) : sizeof(int8_t));
    const ProductSize size = {
        .m = rows, .n = w.n, .k = at.k, .panel_bytes = at.panel_bytes, .gated = w.gate.has_value()};
    each_block(ctx, kernels, blocks, size, bytes,
               [&](const IntBlock& block, int64_t panel) { kernel(args, block, panel); });
  }
}

}  // namespace quire::cpu
