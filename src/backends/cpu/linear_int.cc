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

IntKind kind_of(const IntLayout& at) {
  if (at.step == 8) return at.zero_points ? kInt4Zeros : kInt4;
  return at.row_scale ? kInt8Rows : kInt8Groups;
}

int32_t zero_of(const CpuKernels& kernels, IntKind kind) {
  if (kind == kInt4Zeros) return 1;  // times the group's own
  return kind == kInt4 ? 8 : kernels.int8_zero;
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
  const RowRoom scratch = float_activations
                              ? RowRoom{.most = m}
                              : row_room(ctx.workspace, int_row_bytes(at.depth, at.num_units, 1), m);

  for (int64_t first = 0; first < m; first += scratch.most) {
    const int64_t rows = std::min(scratch.most, m - first);
    const Blocks blocks(rows, kernels.int_block_rows);
    IntLinearArgs args = {
        .in = {.x = x.row<float>(first),
               .x_stride = x.row_stride,
               .k = at.k,
               .depth = at.depth,
               .group = at.activation_group,
               .unit = at.unit,
               .num_units = at.num_units,
               .digits = 1,
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
        .gate = gate_of(kernels, w),
    };
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
