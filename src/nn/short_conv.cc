#include "nn/short_conv.h"

namespace quire {

void apply(const OpTable& ops, const OpContext& ctx, const ShortConv& conv, const TensorView& out,
           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const LayerState& state, const RecurrentScratch& scratch) {
  const int64_t d = conv.sizes.channels;
  const RecurrentScratch at = part_of(scratch, conv.sizes.recurrent(), x.rows());
  apply(ops, ctx, conv.in, at.projected, x);
  const TensorView before = column_slice(at.projected, 0, d);
  const TensorView behind = column_slice(at.projected, d, 2 * d);
  const TensorView inputs = column_slice(at.projected, 2 * d, 3 * d);
  ops.gate(ctx, inputs, inputs, before, Activation::kNone);
  apply(ops, ctx, conv.conv, inputs, batch, state);
  ops.gate(ctx, at.result, inputs, behind, Activation::kNone);
  apply(ops, ctx, conv.out, out, at.result, residual);
}

}  // namespace quire
