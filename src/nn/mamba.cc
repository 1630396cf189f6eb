#include "nn/mamba.h"

namespace quire {

void apply(const OpTable& ops, const OpContext& ctx, const Mamba& mamba, const TensorView& out,
           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const LayerState& state, const RecurrentScratch& scratch) {
  const MambaSizes& sizes = mamba.sizes;
  const RecurrentScratch at = part_of(scratch, sizes.recurrent(), x.rows());
  const int64_t inner = sizes.inner();
  const int64_t shared = int64_t{sizes.groups} * sizes.state;
  apply(ops, ctx, mamba.in, at.projected, x);
  int64_t end = 0;
  const auto next = [&](int64_t columns) {
    end += columns;
    return column_slice(at.projected, end - columns, end);
  };
  const TensorView gates = next(inner);
  const TensorView values = next(inner);
  const TensorView writes = next(shared);
  const TensorView reads = next(shared);
  const TensorView steps = next(sizes.heads);
  if (!mamba.multipliers.empty()) {
    size_t i = 0;
    for (const TensorView& part : {gates, values, writes, reads, steps})
      ops.scale_softcap(ctx, part, mamba.multipliers[i++], 0.0F);
  }
  apply(ops, ctx, mamba.conv, column_slice(at.projected, inner, inner + sizes.channels()), batch, state);
  ops.decay_gates(ctx, at.decay, steps, vector_view(mamba.step_bias, sizes.heads),
                  vector_view(mamba.rate, sizes.heads), {.low = mamba.min_step, .high = mamba.max_step});
  ops.ssm_scan(ctx, head_view(at.result, sizes.heads), head_view(values, sizes.heads),
               head_view(writes, sizes.groups), head_view(reads, sizes.groups), at.decay, steps,
               vector_view(mamba.skip, sizes.heads), batch.states, state.recurrence);
  if (mamba.norm && mamba.norm_before_gate) apply_each(ops, ctx, *mamba.norm, at.result);
  ops.gate(ctx, at.result, at.result, gates, Activation::kSilu);
  if (mamba.norm && !mamba.norm_before_gate) apply_each(ops, ctx, *mamba.norm, at.result);
  apply(ops, ctx, mamba.out, out, at.result, residual);
}

}  // namespace quire
