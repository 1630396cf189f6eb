#include "nn/lightning.h"

#include <cmath>

namespace quire {

float lightning_decay(int32_t head, int32_t heads, int32_t layer, int32_t layers) {
  // The last layers forget least.
  constexpr double kLeast = 1e-5;
  const double slope = std::pow(2.0, -8.0 * (head + 1) / heads);
  const double depth = 1.0 - layer / (layers - 1 + kLeast) + kLeast;
  return static_cast<float>(std::exp(-slope * depth));
}

void apply(const OpTable& ops, const OpContext& ctx, const Lightning& lightning, const TensorView& out,
           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const LayerState& state, const RecurrentScratch& scratch) {
  const LightningSizes& sizes = lightning.sizes;
  const RecurrentScratch at = part_of(scratch, sizes.recurrent(), x.rows());
  const int64_t inner = sizes.inner();
  apply(ops, ctx, lightning.in, at.projected, x);
  ops.activation(ctx, column_slice(at.projected, 0, 3 * inner), lightning.activation);
  const auto part = [&](int64_t i) { return column_slice(at.projected, i * inner, (i + 1) * inner); };
  const TensorView queries = head_view(part(0), sizes.heads);
  const TensorView keys = head_view(part(1), sizes.heads);
  const TensorView values = head_view(part(2), sizes.heads);
  ops.ssm_scan(ctx, head_view(at.result, sizes.heads), values, keys, queries,
               same_rows(lightning.decay, x.rows(), sizes.heads),
               same_rows(lightning.step, x.rows(), sizes.heads), vector_view(lightning.skip, sizes.heads),
               batch.states, state.recurrence);
  apply(ops, ctx, lightning.norm, at.result, at.result);
  ops.gate(ctx, at.result, at.result, part(3), Activation::kSigmoid);
  apply(ops, ctx, lightning.out, out, at.result, residual);
}

}  // namespace quire
