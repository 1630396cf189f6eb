#include "nn/recurrent.h"

#include <cmath>
#include <utility>

namespace quire {

void apply(const OpRunner& run, const CausalConv& conv, const TensorView& x, const ForwardBatch& batch,
           const LayerState& state) {
  const TensorView weight = make_view(const_cast<std::byte*>(conv.weight.data()), DType::kF32,
                                      Shape{conv.conv_kernel, conv.channels});
  run(ops::CausalConv{.x = x,
                      .weight = weight,
                      .bias = vector_view(conv.bias, conv.channels),
                      .activation = conv.activation,
                      .batch = batch.states,
                      .state = state.inputs});
}

ParamSpec in_proj_spec(const InputSpec& x, int64_t out, int64_t unit) {
  return after_norm(column_parallel(recurrent::kInProj, out, x.size, unit), x.norm);
}

ParamSpec g_proj_spec(const InputSpec& x, int64_t out, int64_t unit) {
  return after_norm(column_parallel(recurrent::kGProj, out, x.size, unit), x.norm);
}

void visit_out_proj(ParamVisitor& visitor, const InputSpec& x, int64_t in, int64_t unit, bool bias,
                    Linear& out_proj) {
  visit_matrix(visitor, "state out", with_bias(row_parallel(recurrent::kOutProj, x.size, in, unit), bias),
               out_proj);
}

void visit_conv(ParamVisitor& visitor, std::vector<ParamSpec> fused, const RecurrentSizes& sizes,
                Activation activation, CausalConv& conv) {
  conv.conv_kernel = sizes.conv_kernel;
  conv.channels = sizes.channels;
  conv.activation = activation;
  const auto transform = [channels = conv.channels, kernel = conv.conv_kernel](const Buffer& stored) {
    return transposed(stored, channels, kernel);
  };
  visitor.vector({.fused = std::move(fused), .transform = transform}, conv.weight, &conv.bias);
}

void visit_conv(ParamVisitor& visitor, const RecurrentSizes& sizes, bool bias, Activation activation,
                CausalConv& conv) {
  const ParamSpec spec = column_parallel(recurrent::kConv1d, sizes.channels, sizes.conv_kernel);
  visit_conv(visitor, {with_bias(spec, bias)}, sizes, activation, conv);
}

void visit_dt_bias(ParamVisitor& visitor, int64_t count, int64_t unit, Buffer& dt_bias) {
  visit_vector(visitor, column_parallel(recurrent::kDtBias, count, 0, unit), dt_bias);
}

void visit_A(ParamVisitor& visitor, int64_t rows, int64_t columns, const Transform& transform, Buffer& A) {
  visit_vector(visitor, column_parallel(recurrent::kALog, rows, columns), A, [transform](Buffer stored) {
    Buffer a = each([](float a_log) { return -std::exp(a_log); })(std::move(stored));
    return transform ? transform(std::move(a)) : std::move(a);
  });
}

void visit_D(ParamVisitor& visitor, int64_t count, Buffer& D) {
  visit_vector(visitor, column_parallel(recurrent::kD, count, 0), D);
}

void visit_recurrent_norm(ParamVisitor& visitor, int64_t count, int64_t unit, Norm& norm) {
  const ParamSpec spec =
      unit == 0 ? replicated(recurrent::kNorm, count) : column_parallel(recurrent::kNorm, count, 0, unit);
  visit_vector(visitor, spec, norm.weight);
}

}  // namespace quire
