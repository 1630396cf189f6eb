// Products with several matrices, on the thread pool: all products of few rows in two parallel loops, one
// over their activations and one over their panels. The others occupy all threads and run one after another.
#include <algorithm>
#include <span>

#include "backends/cpu/drivers.h"
#include "backends/cpu/int_blocks.h"
#include "backends/cpu/small_product.h"
#include "backends/cpu/split.h"
#include "ops/parallel.h"

namespace quire::cpu {
namespace {

// A product whose activations have a place in the workspace.
struct Placed {
  int64_t index;  // index of the product
  std::byte* memory;
};

// Multiplies with a matrix on its own. Rows that are not consecutive are copied to the first half of the
// workspace.
void multiply_alone(const CpuKernels& kernels, const OpContext& ctx, const SmallProduct& product) {
  if (product.rows == nullptr) {
    return run(kernels, ctx,
               ops::Linear{.out = product.out, .x = row_slice(product.x, 0, product.m()), .w = product.w});
  }
  const size_t half = ctx.workspace.size() / 2;
  OpContext rest = ctx;
  rest.workspace = ctx.workspace.subspan(half);
  const int64_t k = product.w.k;
  const RowRoom room =
      row_room(ctx.workspace.first(half), k * static_cast<int64_t>(sizeof(float)), product.m());
  for (int64_t first = 0; first < product.m(); first += room.max_rows) {
    const int64_t rows = std::min(room.max_rows, product.m() - first);
    const TensorView x = make_view(room.begin, DType::kF32, Shape{rows, k});
    const std::span<const int32_t> indices(product.rows + first, static_cast<size_t>(rows));
    ops::run_reference(ctx, ops::GatherRows{.out = x, .x = product.x, .rows = indices});
    run(kernels, rest,
        ops::Linear{.out = row_slice(product.out, first, first + rows), .x = x, .w = product.w});
  }
}

// Multiplies the products that have been placed. get(i): product i. All have the same shape of matrices.
template <class Get>
void multiply_placed(const CpuKernels& kernels, const OpContext& ctx, std::span<const Placed> placed,
                     Get&& get) {
  if (placed.empty()) return;
  if (placed.size() == 1) return multiply_alone(kernels, ctx, get(placed[0].index));
  int64_t rows = 0;
  for (const Placed& at : placed) rows += get(at.index).m();
  const PackedLinear& w = get(placed[0].index).w;
  const auto count = static_cast<int64_t>(placed.size());
  const int64_t mean_rows = (rows + count - 1) / count;
  parallel_ranges(ctx, count, std::max<int64_t>(1, kPreparedAlone / (mean_rows * w.k)),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) {
                      const Placed& at = placed[static_cast<size_t>(i)];
                      const SmallProduct product = get(at.index);
                      form_of(product).prepare(kernels, product, at.memory);
                    }
                  });
  const int64_t all_panels = (w.n + kPanel - 1) / kPanel;
  const int64_t panels =
      panels_to_cut({.m = 0, .n = w.n, .k = 0, .panel_bytes = 0, .gated = w.gate.has_value()});
  const int64_t panel_bytes = std::max<int64_t>(1, static_cast<int64_t>(w.data.size()) / all_panels);
  parallel_ranges(
      ctx, count * panels, few_rows_run(ctx, mean_rows, w.k, panel_bytes, count * panels),
      [&](int64_t begin, int64_t end, int) {
        while (begin < end) {
          const Placed& at = placed[static_cast<size_t>(begin / panels)];
          const int64_t panel = begin % panels;
          const int64_t panel_end = std::min(panels, panel + end - begin);
          const SmallProduct product = get(at.index);
          form_of(product).multiply(kernels, product, at.memory, panel, panel_end);
          begin += panel_end - panel;
        }
      },
      Ranges::kLongFirst);
}

// All products get(i) with i in [0, count) and has(i), whose matrices have the same shape. Products without
// rows are many, and their matrices are not in the caches: they are not looked at.
template <class Has, class Get>
void multiply_all(const CpuKernels& kernels, const OpContext& ctx, int64_t count, Has&& has, Get&& get) {
  int64_t num_small = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!has(i)) continue;
    const SmallProduct product = get(i);
    if (is_small(product)) {
      ++num_small;
    } else {
      multiply_alone(kernels, ctx, product);
    }
  }
  if (num_small == 0) return;
  // The workspace has the list of products, then their activations.
  const int64_t list_bytes = (num_small * static_cast<int64_t>(sizeof(Placed)) + 63) / 64 * 64;
  const RowRoom list = row_room(ctx.workspace, list_bytes, 1);
  auto* placed = reinterpret_cast<Placed*>(list.begin);
  std::byte* const first = list.begin + list_bytes;
  std::byte* const end = ctx.workspace.data() + ctx.workspace.size();
  std::byte* next = first;
  size_t num_placed = 0;
  const auto flush = [&] {
    multiply_placed(kernels, ctx, {placed, num_placed}, get);
    num_placed = 0;
    next = first;
  };
  for (int64_t i = 0; i < count; ++i) {
    if (!has(i)) continue;
    const SmallProduct product = get(i);
    if (!is_small(product)) continue;
    const int64_t bytes = (form_of(product).prepared_bytes(kernels, product) + 63) / 64 * 64;
    if (bytes > end - next) flush();
    if (bytes > end - next) {
      multiply_alone(kernels, ctx, product);
      continue;
    }
    placed[num_placed++] = {i, next};
    next += bytes;
  }
  flush();
}

}  // namespace

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::GroupedLinear& op) {
  const auto begin_of = [&](int64_t g) { return op.offsets[static_cast<size_t>(g)]; };
  multiply_all(
      kernels, ctx, static_cast<int64_t>(op.matrices.size()),
      [&](int64_t g) {
        return begin_of(g) < begin_of(g + 1) && op.matrices[static_cast<size_t>(g)] != nullptr;
      },
      [&](int64_t g) {
        const int64_t begin = begin_of(g);
        const int64_t end = begin_of(g + 1);
        return SmallProduct{.w = *op.matrices[static_cast<size_t>(g)],
                            .out = row_slice(op.out, begin, end),
                            .x = op.rows.empty() ? row_slice(op.x, begin, end) : op.x,
                            .rows = op.rows.empty() ? nullptr : op.rows.data() + begin,
                            .tuning = ctx.tuning};
      });
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::BatchedLinear& op) {
  multiply_all(
      kernels, ctx, static_cast<int64_t>(op.matrices.size()), [&](int64_t) { return op.x.rows() > 0; },
      [&](int64_t i) {
        const PackedLinear& w = *op.matrices[static_cast<size_t>(i)];
        return SmallProduct{.w = w,
                            .out = column_slice(op.out, i * w.n, (i + 1) * w.n),
                            .x = column_slice(op.x, i * w.k, (i + 1) * w.k),
                            .tuning = ctx.tuning};
      });
}

}  // namespace quire::cpu
