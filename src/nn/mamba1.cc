#include "nn/mamba1.h"

namespace quire {

void apply(const OpTable& ops, const OpContext& ctx, const Mamba1& mamba, const TensorView& out,
           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const LayerState& state, const RecurrentScratch& scratch) {
  const Mamba1Sizes& sizes = mamba.sizes;
  const RecurrentScratch at = part_of(scratch, sizes.recurrent(), x.rows());
  int64_t end = 0;
  const auto next = [&](int64_t columns) {
    end += columns;
    return column_slice(at.projected, end - columns, end);
  };
  const TensorView values = next(sizes.inner);
  const TensorView gates = next(sizes.inner);
  const TensorView selected = next(sizes.selected());
  const TensorView steps = next(sizes.inner);
  apply(ops, ctx, mamba.in, column_slice(at.projected, 0, 2 * sizes.inner), x);
  apply(ops, ctx, mamba.conv, values, batch, state);
  apply(ops, ctx, mamba.select, selected, values);
  const TensorView made = column_slice(selected, 0, sizes.rank);
  const TensorView writes = column_slice(selected, sizes.rank, sizes.rank + sizes.state);
  const TensorView reads = column_slice(selected, sizes.rank + sizes.state, sizes.selected());
  if (mamba.step_norm) apply(ops, ctx, *mamba.step_norm, made, made);
  if (mamba.write_norm) apply(ops, ctx, *mamba.write_norm, writes, writes);
  if (mamba.read_norm) apply(ops, ctx, *mamba.read_norm, reads, reads);
  apply(ops, ctx, mamba.step, steps, made);
  const TensorView rate =
      make_view(const_cast<std::byte*>(mamba.rate.data()), DType::kF32, Shape{sizes.state, sizes.inner});
  ops.selective_scan(ctx, at.result, values, steps, writes, reads, rate, vector_view(mamba.skip, sizes.inner),
                     batch.states, state.recurrence);
  ops.gate(ctx, at.result, at.result, gates, Activation::kSilu);
  apply(ops, ctx, mamba.out, out, at.result, residual);
}

}  // namespace quire
