#include "nn/kimi_delta.h"

namespace quire {

void apply(const OpTable& ops, const OpContext& ctx, const KimiDelta& net, const TensorView& out,
           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const LayerState& state, const RecurrentScratch& scratch) {
  const KimiDeltaSizes& sizes = net.sizes;
  const RecurrentScratch at = part_of(scratch, sizes.recurrent(), x.rows());
  const int64_t inner = sizes.inner();
  const auto part = [&](int64_t i) { return column_slice(at.projected, i * inner, (i + 1) * inner); };
  const auto heads = [&](const TensorView& all) { return head_view(all, sizes.heads); };
  const TensorView narrow = column_slice(at.projected, 5 * inner, sizes.projected());
  const TensorView gates = part(3);
  const TensorView steps = part(4);
  apply(ops, ctx, net.wide, column_slice(at.projected, 0, sizes.wide()), x);
  apply(ops, ctx, net.narrow, narrow, x);
  if (net.gate) {
    const int64_t begin = sizes.heads;
    apply(ops, ctx, *net.gate, gates, column_slice(narrow, begin, begin + sizes.rank));
    apply(ops, ctx, *net.step, steps, column_slice(narrow, begin + sizes.rank, sizes.narrow()));
  }
  apply(ops, ctx, net.conv, column_slice(at.projected, 0, sizes.channels()), batch, state);
  apply(ops, ctx, net.query_norm, heads(part(0)), heads(part(0)));
  apply(ops, ctx, net.key_norm, heads(part(1)), heads(part(1)));
  const TensorView shares = column_slice(narrow, 0, sizes.heads);
  ops.activation(ctx, shares, Activation::kSigmoid);
  ops.decay_gates(ctx, at.decay, steps, vector_view(net.step_bias, inner), vector_view(net.rate, inner),
                  {.bound = net.bound});
  ops.delta_rule(ctx, heads(at.result), heads(part(0)), heads(part(1)), heads(part(2)), at.decay, shares,
                 batch.states, state.recurrence);
  apply(ops, ctx, net.norm, heads(at.result), heads(at.result));
  ops.gate(ctx, at.result, at.result, gates, Activation::kSigmoid);
  apply(ops, ctx, net.out, out, at.result, residual);
}

}  // namespace quire
