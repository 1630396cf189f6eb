// Products with matrices of codes, over the pool.
#include <algorithm>
#include <array>

#include "backends/cpu/drivers.h"
#include "backends/cpu/int_blocks.h"
#include "ops/outliers.h"
#include "quant/code_tables.h"
#include "quant/coded_layout.h"

namespace quire::cpu {
namespace {

static_assert(kPanel == CodedLayout::kPanel);

CodedHeader header_of(const CodedLayout& at, int64_t depth) {
  const CodedLayout::Header h = at.header(depth);
  return {h.minima, h.group_scales, h.group_minima, h.group_zeros, h.codes};
}

// The numbers of codes with at most 4 bits, which kernels look up.
using Numbers = std::array<float, 16>;

CodedMatrixArgs make_args(const CpuKernels& kernels, const CodedLayout& at, const PackedLinear& w,
                          Numbers& numbers) {
  const CodedFormat& format = at.format;
  numbers.fill(0.0F);
  if (format.table.size() <= numbers.size()) std::ranges::copy(format.table, numbers.begin());
  return {
      .io = {.bias = w.bias.size() > 0 ? w.bias.as<float>() : nullptr,
             .weights = w.data.data(),
             .n = w.n,
             .k = w.k,
             .gate = gate_of(kernels, w)},
      .k = at.k,
      .group = at.group,
      .block = at.block,
      .block_bytes = at.block_bytes,
      .panel_bytes = at.panel_bytes,
      .whole = header_of(at, at.block),
      .last = header_of(at, at.depth_of(at.num_blocks() - 1)),
      .scales = format.half_scales     ? kCodedF16
                : format.bfloat_scales ? kCodedBF16
                                       : kCodedF32,
      .two_levels = format.two_levels(),
      .minima = format.minima,
      .group_zeros = format.group_zeros,
      .table = format.table.size() > numbers.size() ? format.table.data() : numbers.data(),
      .group_scale_table = format.group_scale_table.empty() ? nullptr : format.group_scale_table.data(),
      .e4m3_group_scales = format.group_scale_table.data() == e4m3_values().data(),
      .e8m0_group_scales = format.group_scale_table.data() == e8m0_values().data(),
  };
}

CodedValues values_of(const CodedFormat& format) {
  if (format.values == CodeValues::kRowTable) return kCodedRowTable;
  return format.table.data() == e4m3_values().data() ? kCodedE4M3 : kCodedTable;
}

// Rows of x in packed order, at args.io.x.
void multiply_floats(const CpuKernels& kernels, const OpContext& ctx, const CodedLayout& at,
                     const CodedMatrixArgs& args, int64_t rows) {
  const auto kernel = kernels.linear_coded[values_of(at.format)][at.bits];
  split_product(ctx, {rows, args.io.n, at.k, at.panel_bytes, args.io.gate.apply != nullptr},
                [&](int64_t row, int64_t row_end, int64_t panel, int64_t panel_end) {
                  kernel(args, row, row_end, panel, panel_end);
                });
}

// The same rows as whole numbers. scratch: int_row_bytes for each.
void multiply_whole(const CpuKernels& kernels, const OpContext& ctx, const CodedLayout& at,
                    const CodedIntUnits& units, const CodedNumbers& numbers, const CodedMatrixArgs& args,
                    int64_t rows, int64_t digits, std::byte* scratch) {
  // What all numbers that are multiplied are too large by.
  const int32_t bias = numbers.table ? kernels.int8_zero : at.bits == 8 ? kernels.int8_zero - 128 : 0;
  const int32_t zero = bias + (numbers.table || at.format.group_zeros ? 0 : at.format.zero);
  // Minima and zeros of groups are multiplied with the sums of activations as they are.
  const bool shifted = at.format.minima || at.format.group_zeros;
  std::array<uint8_t, 16> biased;
  for (size_t i = 0; i < biased.size(); ++i) biased[i] = static_cast<uint8_t>(numbers.numbers[i] + 128);
  CodedIntArgs own = {
      .m = args,
      .in = {.x = static_cast<const float*>(args.io.x),
             .x_stride = args.io.x_stride,
             .k = at.k,
             .depth = units.depth,
             .group = units.activation_group,
             .unit = units.unit,
             .num_units = units.num_units,
             .digits = digits,
             .zero = shifted ? 1 : zero},
      .zero = shifted ? zero : 1,
      .numbers = biased.data(),
      .step = numbers.step,
  };
  const Blocks blocks(rows, kernels.int_block_rows / digits);
  quantize_activations(kernels, ctx, blocks, scratch, own.in);
  const auto kernel = kernels.linear_coded_int[numbers.table ? 1 : 0][at.bits];
  const ProductSize size = {.m = rows,
                            .n = args.io.n,
                            .k = at.k,
                            .panel_bytes = at.panel_bytes,
                            .gated = args.io.gate.apply != nullptr};
  each_chunk(ctx, kernels, blocks, size, sizeof(int8_t),
             [&](const IntBlocks& some, int64_t from, int64_t to, int) { kernel(own, some, from, to); });
}

// Rows of x with their columns in the order of the matrix, and zeros for those that is_large.
void put_in_order(const OpContext& ctx, const PackedLinear& w, const TensorView& x, float threshold,
                  float* out) {
  const int32_t* order = w.column_order.size() > 0 ? w.column_order.as<int32_t>() : nullptr;
  parallel_ranges(ctx, x.rows(), row_grain(4 * w.k), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const float* in = x.row<float>(r);
      for (int64_t i = 0; i < w.k; ++i) {
        const float v = in[order == nullptr ? i : order[i]];
        out[r * w.k + i] = is_large(v, threshold) ? 0.0F : v;
      }
    }
  });
}

}  // namespace

void linear_coded(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
                  const PackedLinear& w, const TensorView& residual) {
  const CodedLayout at(w.format.coded, w.k);
  const CodedIntUnits units(at);
  const auto whole = coded_numbers(at.format);
  const int64_t digits = num_activation_digits(w.format.activations);
  Numbers numbers;
  CodedMatrixArgs args = make_args(kernels, at, w, numbers);
  args.io.x_stride = x.row_stride;
  args.io.out_stride = out.row_stride;
  args.io.residual_stride = residual.row_stride;
  const int64_t m = x.rows();
  // Activations that are not rounded with the others are added at the end.
  const float threshold = whole && digits == 1 ? w.format.outlier_threshold : 0.0F;
  const bool ordered = w.column_order.size() > 0 || threshold > 0.0F;
  const int64_t order_bytes = ordered ? (w.k * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64 : 0;
  const int64_t row_bytes = order_bytes + (whole ? int_row_bytes(units.depth, units.num_units, digits) : 0);
  const RowRoom room = row_bytes > 0 ? row_room(ctx.workspace, row_bytes, m) : RowRoom{.most = m};
  for (int64_t first = 0; first < m; first += room.most) {
    const int64_t rows = std::min(room.most, m - first);
    args.io.x = x.row<float>(first);
    args.io.out = out.row<float>(first);
    args.io.residual = residual.data != nullptr ? residual.row<float>(first) : nullptr;
    if (ordered) {
      auto* put = reinterpret_cast<float*>(room.begin);
      put_in_order(ctx, w, row_slice(x, first, first + rows), threshold, put);
      args.io.x = put;
      args.io.x_stride = w.k;
    }
    if (whole) {
      multiply_whole(kernels, ctx, at, units, *whole, args, rows, digits, room.begin + rows * order_bytes);
    } else {
      multiply_floats(kernels, ctx, at, args, rows);
    }
  }
  if (threshold > 0.0F) add_large_activations(ctx, out, x, w);
  add_outliers(ctx, out, x, w);
}

}  // namespace quire::cpu
