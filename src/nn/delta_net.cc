#include "nn/delta_net.h"

#include <algorithm>
#include <cmath>

namespace quire {

// x / sqrt(sum(x^2) + 1e-6), which is an RMS norm: the mean is the sum divided by the size.
Norm length_norm(int64_t size, float length) {
  Norm norm;
  norm.eps = 1e-6F / static_cast<float>(size);
  norm.size = size;
  norm.weight = Buffer(static_cast<size_t>(size) * sizeof(float));
  const double weight = length / std::sqrt(static_cast<double>(size));
  std::fill_n(norm.weight.as<float>(), size, static_cast<float>(weight));
  return norm;
}

void apply(const OpTable& ops, const OpContext& ctx, const DeltaNet& net, const TensorView& out,
           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const LayerState& state, const RecurrentScratch& scratch) {
  const DeltaNetSizes& sizes = net.sizes;
  const RecurrentScratch at = part_of(scratch, sizes.recurrent(), x.rows());
  const int64_t wide = sizes.channels() + sizes.values();
  apply(ops, ctx, net.in, column_slice(at.projected, 0, wide), x);
  apply(ops, ctx, net.steps, column_slice(at.projected, wide, sizes.projected()), x);
  int64_t end = 0;
  const auto next = [&](int64_t columns) {
    end += columns;
    return column_slice(at.projected, end - columns, end);
  };
  const TensorView queries = head_view(next(sizes.keys()), sizes.key_heads);
  const TensorView keys = head_view(next(sizes.keys()), sizes.key_heads);
  const TensorView values = next(sizes.values());
  const TensorView gates = next(sizes.values());
  const TensorView shares = next(sizes.value_heads);
  const TensorView steps = next(sizes.value_heads);
  apply(ops, ctx, net.conv, column_slice(at.projected, 0, sizes.channels()), batch, state);
  apply(ops, ctx, net.query_norm, queries, queries);
  apply(ops, ctx, net.key_norm, keys, keys);
  ops.activation(ctx, shares, Activation::kSigmoid);
  if (net.share != 1.0F) ops.scale_softcap(ctx, shares, net.share, 0.0F);
  ops.decay_gates(ctx, at.decay, steps, vector_view(net.step_bias, sizes.value_heads),
                  vector_view(net.rate, sizes.value_heads), {});
  // Where heads take turns: the first value head of each key head, then the second of each …
  const int64_t turns = sizes.in_turn ? sizes.value_heads / sizes.key_heads : 1;
  const int64_t heads = sizes.value_heads / turns;
  for (int64_t begin = 0; begin < sizes.value_heads; begin += heads) {
    const auto part = [&](const TensorView& all, int64_t size) {
      return column_slice(all, begin * size, (begin + heads) * size);
    };
    const auto part_of_heads = [&](const TensorView& all) {
      return head_view(part(all, sizes.value_dim), heads);
    };
    StateView states = state.recurrence;
    states.places = states.places.subspan(static_cast<size_t>(begin), static_cast<size_t>(heads));
    ops.delta_rule(ctx, part_of_heads(at.result), queries, keys, part_of_heads(values), part(at.decay, 1),
                   part(shares, 1), batch.states, states);
  }
  const TensorView result = head_view(at.result, sizes.value_heads);
  apply(ops, ctx, net.norm, result, result);
  ops.gate(ctx, at.result, at.result, gates, Activation::kSilu);
  apply(ops, ctx, net.out, out, at.result, residual);
}

}  // namespace quire
