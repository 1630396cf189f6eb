// Products with quantized matrices, on the thread pool.
#include <algorithm>
#include <array>
#include <optional>

#include "backends/cpu/drivers.h"
#include "backends/cpu/int_blocks.h"
#include "backends/cpu/small_product.h"
#include "ops/outliers.h"
#include "quant/code_tables.h"
#include "quant/quant_layout.h"

namespace quire::cpu {
namespace {

static_assert(kPanel == QuantLayout::kPanel);

QuantizedHeader header_of(const QuantLayout& at, int64_t depth) {
  const QuantLayout::Header h = at.header(depth);
  return {h.minima, h.group_scales, h.group_minima, h.group_zero_points, h.codes};
}

// The values of types with at most 4 bits, which kernels look up.
using Numbers = std::array<float, 16>;

QuantizedMatrixArgs make_args(const CpuKernels& kernels, const QuantLayout& at, const PackedLinear& w,
                              Numbers& numbers) {
  const QuantFormat& format = at.format;
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
      .scales = format.half_scales     ? kQuantizedF16
                : format.bfloat_scales ? kQuantizedBF16
                                       : kQuantizedF32,
      .two_levels = format.two_levels(),
      .minima = format.minima,
      .group_zero_points = format.group_zero_points,
      .table = format.table.size() > numbers.size() ? format.table.data() : numbers.data(),
      .group_scale_table = format.group_scale_table.empty() ? nullptr : format.group_scale_table.data(),
      .e4m3_group_scales = format.group_scale_table.data() == e4m3_values().data(),
      .e8m0_group_scales = format.group_scale_table.data() == e8m0_values().data(),
  };
}

QuantizedValues values_of(const QuantFormat& format) {
  if (format.values == CodeValues::kRowTable) return kQuantizedRowTable;
  return format.table.data() == e4m3_values().data() ? kQuantizedE4M3 : kQuantizedTable;
}

ProductSize size_of(const QuantLayout& at, const QuantizedMatrixArgs& args, int64_t rows) {
  return {.m = rows,
          .n = args.io.n,
          .k = at.k,
          .panel_bytes = at.panel_bytes,
          .gated = args.io.gate.apply != nullptr};
}

// Products of `rows` rows of x at args.io.x, whose columns are in packed order.
void multiply_floats(const CpuKernels& kernels, const OpContext& ctx, const QuantLayout& at,
                     const QuantizedMatrixArgs& args, int64_t rows) {
  const auto kernel = kernels.linear_quantized[values_of(at.format)][at.bits];
  split_product(ctx, size_of(at, args, rows),
                [&](int64_t row, int64_t row_end, int64_t panel, int64_t panel_end) {
                  kernel(args, row, row_end, panel, panel_end);
                });
}

// The integers that integer products look up, with an offset of 128.
using BiasedNumbers = std::array<uint8_t, 16>;

// Prefetch distance, in bytes, of integer products of a few rows.
constexpr int64_t kQuantizedIntPrefetchBytes = 6144;

// The arguments of the same products with activations as integers; those are not placed yet.
QuantizedIntArgs make_int_args(const CpuKernels& kernels, const KernelTuning& tuning, const QuantLayout& at,
                               const IntBlocking& units, const IntegerValues& numbers,
                               const QuantizedMatrixArgs& args, int64_t slices, BiasedNumbers& biased) {
  // Offset of the stored integers.
  const int32_t bias = numbers.table ? kernels.int8_zero : at.bits == 8 ? kernels.int8_zero - 128 : 0;
  const int32_t zero = bias + (numbers.table || at.format.group_zero_points ? 0 : at.format.zero_point);
  // Mins and zero points of groups are multiplied by the plain sums of activations.
  const bool shifted = at.format.minima || at.format.group_zero_points;
  for (size_t i = 0; i < biased.size(); ++i) biased[i] = static_cast<uint8_t>(numbers.numbers[i] + 128);
  return {
      .m = args,
      .in = {.x = static_cast<const float*>(args.io.x),
             .x_stride = args.io.x_stride,
             .k = at.k,
             .depth = units.depth,
             .group = units.activation_group,
             .unit = units.unit,
             .num_units = units.num_units,
             .slices = slices,
             .zero_point = shifted ? 1 : zero},
      .zero_point = shifted ? zero : 1,
      .numbers = biased.data(),
      .step = numbers.step,
      .prefetch = {kQuantizedIntPrefetchBytes, tuning.prefetch_into_l2},
  };
}

// The products. scratch: int_row_bytes per row.
void multiply_integers(const CpuKernels& kernels, const OpContext& ctx, const QuantLayout& at,
                       const IntBlocking& units, const IntegerValues& numbers,
                       const QuantizedMatrixArgs& args, int64_t rows, int64_t slices, std::byte* scratch) {
  BiasedNumbers biased;
  QuantizedIntArgs own = make_int_args(kernels, ctx.tuning, at, units, numbers, args, slices, biased);
  const Blocks blocks(rows, kernels.int_block_rows / slices);
  quantize_activations(kernels, ctx, blocks, scratch, own.in);
  const auto kernel = kernels.linear_quantized_int[numbers.table ? 1 : 0][at.bits];
  each_chunk(ctx, blocks, size_of(at, args, rows), slices,
             [&](const IntBlocks& some, int64_t from, int64_t to, int) { kernel(own, some, from, to); });
}

// Copies rows of x with their columns in the order of the matrix. Columns for which is_large holds become
// zeros.
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

void linear_quantized(const CpuKernels& kernels, const OpContext& ctx, const ops::Linear& op) {
  const QuantLayout at(op.w.format.quantized, op.w.k);
  const IntBlocking units(at, op.w.format.token_scales);
  const auto whole = integer_values(at.format);
  const int64_t slices = num_activation_slices(op.w.format.activations);
  Numbers numbers;
  QuantizedMatrixArgs args = make_args(kernels, at, op.w, numbers);
  args.io.x_stride = op.x.row_stride;
  args.io.out_stride = op.out.row_stride;
  args.io.residual_stride = op.residual.row_stride;
  const int64_t m = op.x.rows();
  // Large activations are excluded from rounding and added at the end.
  const float threshold = whole && slices == 1 ? op.w.format.outlier_threshold : 0.0F;
  const bool ordered = op.w.column_order.size() > 0 || threshold > 0.0F;
  const int64_t order_bytes = ordered ? (op.w.k * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64 : 0;
  const int64_t row_bytes = order_bytes + (whole ? int_row_bytes(units.depth, units.num_units, slices) : 0);
  const RowRoom room = row_bytes > 0 ? row_room(ctx.workspace, row_bytes, m) : RowRoom{.max_rows = m};
  for (int64_t first = 0; first < m; first += room.max_rows) {
    const int64_t rows = std::min(room.max_rows, m - first);
    args.io.x = op.x.row<float>(first);
    args.io.out = op.out.row<float>(first);
    args.io.residual = op.residual.data != nullptr ? op.residual.row<float>(first) : nullptr;
    if (ordered) {
      auto* put = reinterpret_cast<float*>(room.begin);
      put_in_order(ctx, op.w, row_slice(op.x, first, first + rows), threshold, put);
      args.io.x = put;
      args.io.x_stride = op.w.k;
    }
    if (whole) {
      multiply_integers(kernels, ctx, at, units, *whole, args, rows, slices, room.begin + rows * order_bytes);
    } else {
      multiply_floats(kernels, ctx, at, args, rows);
    }
  }
  if (threshold > 0.0F) add_large_activations(ctx, op.out, op.x, op.w);
  add_outliers(ctx, op.out, op.x, op.w);
}

namespace {

// The layout of a matrix, for the two phases of a small product.
struct SmallQuantized {
  QuantLayout at;
  IntBlocking units;
  std::optional<IntegerValues> whole;  // the activations are integers
  int64_t slices;
  int64_t rows;
  Numbers numbers;
  BiasedNumbers biased;

  explicit SmallQuantized(const SmallProduct& product)
      : at(product.w.format.quantized, product.w.k),
        units(at, product.w.format.token_scales),
        whole(integer_values(at.format)),
        slices(num_activation_slices(product.w.format.activations)),
        rows(product.m()) {}

  Blocks blocks(const CpuKernels& kernels) const { return {rows, kernels.int_block_rows / slices}; }
  QuantizedMatrixArgs args(const CpuKernels& kernels, const SmallProduct& product, const TensorView& x) {
    QuantizedMatrixArgs made = make_args(kernels, at, product.w, numbers);
    made.io.x = x.data;
    made.io.x_stride = x.row_stride;
    made.io.out = product.out.as<float>();
    made.io.out_stride = product.out.row_stride;
    return made;
  }
  // With activations at `codes`.
  QuantizedIntArgs int_args(const CpuKernels& kernels, const KernelTuning& tuning,
                            const QuantizedMatrixArgs& of, std::byte* codes) {
    QuantizedIntArgs made = make_int_args(kernels, tuning, at, units, *whole, of, slices, biased);
    place_activations(rows, codes, made.in);
    return made;
  }
};

int64_t quantized_prepared_bytes(const CpuKernels& /*kernels*/, const SmallProduct& product) {
  const SmallQuantized small(product);
  const int64_t row_bytes =
      small.whole ? int_row_bytes(small.units.depth, small.units.num_units, small.slices) : 0;
  return gathered_bytes(product) + small.rows * row_bytes;
}

void quantized_prepare(const CpuKernels& kernels, const SmallProduct& product, std::byte* memory) {
  const TensorView x = gather(product, memory);
  SmallQuantized small(product);
  if (!small.whole) return;
  const IntActivations in = small
                                .int_args(kernels, product.tuning, small.args(kernels, product, x),
                                          memory + gathered_bytes(product))
                                .in;
  const auto round = small.slices == 1 ? kernels.quantize_rows : kernels.split_rows;
  const Blocks blocks = small.blocks(kernels);
  for (int64_t b = 0; b < blocks.count; ++b) round(in, blocks.first(b), blocks.size(b));
}

void quantized_multiply(const CpuKernels& kernels, const SmallProduct& product, std::byte* memory,
                        int64_t begin, int64_t end) {
  SmallQuantized small(product);
  const QuantizedMatrixArgs args = small.args(kernels, product, gathered(product, memory));
  const ProductSize size = size_of(small.at, args, small.rows);
  if (!small.whole) {
    const auto kernel = kernels.linear_quantized[values_of(small.at.format)][small.at.bits];
    return each_few(size, begin, end,
                    [&](int64_t from, int64_t to) { kernel(args, 0, small.rows, from, to); });
  }
  const QuantizedIntArgs own =
      small.int_args(kernels, product.tuning, args, memory + gathered_bytes(product));
  const auto kernel = kernels.linear_quantized_int[small.whole->table ? 1 : 0][small.at.bits];
  each_panel(small.blocks(kernels), size, begin, end,
             [&](const IntBlocks& some, int64_t from, int64_t to) { kernel(own, some, from, to); });
}

}  // namespace

const SmallForm kSmallQuantized = {quantized_prepared_bytes, quantized_prepare, quantized_multiply};

}  // namespace quire::cpu
