// Products with matrices of codes, over the pool.
#include <algorithm>
#include <array>

#include "backends/cpu/drivers.h"
#include "backends/cpu/split.h"
#include "base/error.h"
#include "base/strings.h"
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

CodedMatrixArgs make_args(const CodedLayout& at, const PackedLinear& w, Numbers& numbers) {
  const CodedFormat& format = at.format;
  const bool is_table = format.values == CodeValues::kTable;
  // Kernels take the zeros of groups off by themselves.
  const int32_t zero = format.group_zeros ? 0 : format.zero;
  numbers.fill(0.0F);
  for (size_t i = 0; i < std::min(numbers.size(), is_table ? format.table.size() : numbers.size()); ++i)
    numbers[i] = is_table ? format.table[i] : static_cast<float>(static_cast<int32_t>(i) - zero);
  return {
      .io = {.bias = w.bias.size() > 0 ? w.bias.as<float>() : nullptr,
             .weights = w.data.data(),
             .n = w.n,
             .k = w.k},
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
      .zero = static_cast<float>(format.zero),
      .table = is_table && format.table.size() > numbers.size() ? format.table.data() : numbers.data(),
      .group_scale_table = format.group_scale_table.empty() ? nullptr : format.group_scale_table.data(),
      .e4m3_group_scales = format.group_scale_table.data() == e4m3_values().data(),
  };
}

CodedValues values_of(const CodedFormat& format) {
  if (format.values == CodeValues::kLinear) return kCodedLinear;
  return format.table.data() == e4m3_values().data() ? kCodedE4M3 : kCodedTable;
}

}  // namespace

void linear_coded(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
                  const PackedLinear& w, const TensorView& residual) {
  const CodedLayout at(w.format.coded, w.k);
  const auto kernel = kernels.linear_coded[values_of(at.format)][at.bits];
  Numbers numbers;
  CodedMatrixArgs args = make_args(at, w, numbers);
  args.io.x_stride = x.row_stride;
  args.io.out_stride = out.row_stride;
  args.io.residual_stride = residual.row_stride;
  const int64_t m = x.rows();
  const bool ordered = w.column_order.size() > 0;
  const int64_t row_bytes = w.k * static_cast<int64_t>(sizeof(float));
  const int64_t most = ordered ? static_cast<int64_t>(ctx.workspace.size()) / row_bytes : m;
  if (m > 0 && most == 0)
    throw Error(cat("linear: a workspace of ", row_bytes, " bytes is needed; got ", ctx.workspace.size()));
  for (int64_t first = 0; first < m; first += most) {
    const int64_t rows = std::min(most, m - first);
    args.io.x = x.row<float>(first);
    args.io.out = out.row<float>(first);
    args.io.residual = residual.data != nullptr ? residual.row<float>(first) : nullptr;
    if (ordered) {
      auto* gathered = reinterpret_cast<float*>(ctx.workspace.data());
      const int32_t* order = w.column_order.as<int32_t>();
      parallel_ranges(ctx, rows, row_grain(4 * w.k), [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r) {
          const float* in = x.row<float>(first + r);
          for (int64_t i = 0; i < w.k; ++i) gathered[r * w.k + i] = in[order[i]];
        }
      });
      args.io.x = gathered;
      args.io.x_stride = w.k;
    }
    split_product(ctx, {rows, w.n, w.k, at.panel_bytes},
                  [&](int64_t row, int64_t row_end, int64_t panel, int64_t panel_end) {
                    kernel(args, row, row_end, panel, panel_end);
                  });
  }
}

}  // namespace quire::cpu
