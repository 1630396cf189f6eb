#include "nn/delta_net.h"

#include <algorithm>
#include <cmath>
#include <limits>

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
  const TensorView values = head_view(next(sizes.values()), sizes.value_heads);
  const TensorView gates = next(sizes.values());
  const TensorView shares = next(sizes.value_heads);
  const TensorView steps = next(sizes.value_heads);
  apply(ops, ctx, net.conv, column_slice(at.projected, 0, sizes.channels()), batch, state);
  apply(ops, ctx, net.query_norm, queries, queries);
  apply(ops, ctx, net.key_norm, keys, keys);
  ops.activation(ctx, shares, Activation::kSigmoid);
  ops.decay_gates(ctx, at.decay, steps, vector_view(net.step_bias, sizes.value_heads),
                  vector_view(net.rate, sizes.value_heads), 0.0F, std::numeric_limits<float>::infinity());
  const TensorView result = head_view(at.result, sizes.value_heads);
  ops.delta_rule(ctx, result, queries, keys, values, at.decay, shares, batch.states, state.recurrence);
  apply(ops, ctx, net.norm, result, result);
  ops.gate(ctx, at.result, at.result, gates, Activation::kSilu);
  apply(ops, ctx, net.out, out, at.result, residual);
}

}  // namespace quire
