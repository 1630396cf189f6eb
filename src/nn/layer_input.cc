#include "nn/layer_input.h"

#include <numbers>

namespace quire {
namespace {

// Each `size` columns of x [rows, n * size] as a row of its own; of every other `step` columns from `first`
// on.
TensorView pieces(const TensorView& x, int64_t size, int64_t step, int64_t first) {
  TensorView view = x;
  view.shape = Shape{x.rows() * (x.row_size() / step), size};
  view.row_stride = step;
  view.data = x.as<float>() + first;
  return view;
}

}  // namespace

void apply(const OpTable& ops, const OpContext& ctx, const LayerInputs& all, const TensorView& inputs,
           const TensorView& hidden, std::span<const int32_t> ids, const TensorView& scratch) {
  const TensorView vectors = pieces(inputs, all.size, 2 * all.size, all.size);
  const TensorView flat = pieces(scratch, all.size, all.size, 0);
  apply(ops, ctx, all.project, scratch, hidden);
  ops.scale_softcap(ctx, flat, all.project_scale, 0.0F);
  apply(ops, ctx, all.norm, vectors, flat);
  apply(ops, ctx, all.table, scratch, ids);
  ops.scale_softcap(ctx, flat, all.table_scale, 0.0F);
  ops.add(ctx, vectors, flat);
  ops.scale_softcap(ctx, vectors, static_cast<float>(1.0 / std::numbers::sqrt2), 0.0F);
}

void apply(const OpTable& ops, const OpContext& ctx, const LayerInput& layer, const TensorView& out,
           const TensorView& x, const TensorView& input, const TensorView& act) {
  apply(ops, ctx, layer.gate, column_slice(input, 0, act.row_size()), x);
  ops.gated_activation(ctx, act, input, layer.activation);
  apply(ops, ctx, layer.project, out, act);
  apply(ops, ctx, layer.norm, out, out);
}

}  // namespace quire
