#include "nn/per_layer_input.h"

#include <cmath>
#include <numbers>

namespace quire {
namespace {

// A view of x [rows, n * step] with n rows per row of x: columns [first, first + size) of each group of
// `step`.
TensorView pieces(const TensorView& x, int64_t size, int64_t step, int64_t first) {
  TensorView view = x;
  view.shape = Shape{x.rows() * (x.row_size() / step), size};
  view.row_stride = step;
  view.data = x.as<float>() + first;
  return view;
}

// Normalizes the piece of each layer. With adapters, one layer after another, so that each call has the rows
// of the step.
void normalize(const OpRunner& run, const PerLayerInputs& all, const TensorView& inputs,
               const TensorView& scratch) {
  if (run.adapters == nullptr) {
    return apply(run, all.norm, pieces(inputs, all.size, 2 * all.size, all.size),
                 pieces(scratch, all.size, all.size, 0));
  }
  for (int64_t begin = 0; begin < scratch.row_size(); begin += all.size) {
    const int64_t out = 2 * begin + all.size;
    apply(run, all.norm, column_slice(inputs, out, out + all.size),
          column_slice(scratch, begin, begin + all.size));
  }
}

}  // namespace

void apply(const OpRunner& run, const PerLayerInputs& all, const TensorView& inputs, const TensorView& hidden,
           std::span<const int32_t> ids, const TensorView& scratch) {
  const TensorView vectors = pieces(inputs, all.size, 2 * all.size, all.size);
  const TensorView flat = pieces(scratch, all.size, all.size, 0);
  apply(run, all.project, scratch, hidden);
  run(ops::ScaleSoftcap{.x = flat, .scale = all.project_scale});
  normalize(run, all, inputs, scratch);
  apply(run, all.table, scratch, ids);
  run(ops::ScaleSoftcap{.x = flat, .scale = all.table_scale});
  run(ops::Add{.x = vectors, .y = flat});
  run(ops::ScaleSoftcap{.x = vectors, .scale = static_cast<float>(1.0 / std::numbers::sqrt2)});
}

void apply(const OpRunner& run, const PerLayerInput& layer, const TensorView& out, const TensorView& x,
           const TensorView& input, const TensorView& act) {
  apply(run, layer.gate, column_slice(input, 0, act.row_size()), x);
  run(ops::GatedActivation{.out = act, .gate_up = input, .activation = layer.activation});
  apply(run, layer.project, out, act);
  apply(run, layer.norm, out, out);
}

void visit(const PerLayerInputSpec& spec, int64_t num_layers, int64_t hidden_size, const NormSpec& norm,
           ParamVisitor& visitor, PerLayerInputs& inputs) {
  inputs.size = spec.size;
  const int64_t all = num_layers * inputs.size;
  visitor.embedding(replicated(per_layer::kEmbedTokens, spec.vocab_size, all), inputs.table);
  visit_matrix(visitor, "linear", replicated(per_layer::kModelProjection, all, hidden_size), inputs.project);
  visit_norm(visitor, per_layer::kProjectionNorm, norm, inputs.size, inputs.norm);
  inputs.table_scale = std::sqrt(static_cast<float>(inputs.size));
  inputs.project_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(hidden_size)));
}

void visit(const PerLayerInputSpec& spec, int64_t hidden_size, const NormSpec& norm, ParamVisitor& visitor,
           PerLayerInput& input) {
  input.activation = spec.activation;
  visit_matrix(visitor, "linear", replicated(per_layer::kInputGate, spec.size, hidden_size), input.gate);
  visit_matrix(visitor, "linear", replicated(per_layer::kProjection, hidden_size, spec.size), input.project);
  visit_norm(visitor, per_layer::kNorm, norm, hidden_size, input.norm);
}

}  // namespace quire
