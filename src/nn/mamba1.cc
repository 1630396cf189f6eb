#include "nn/mamba1.h"

#include <utility>

namespace quire {

void apply(const OpRunner& run, const Mamba1& mamba, const MixerArgs& args) {
  const Mamba1Sizes& sizes = mamba.sizes;
  const RecurrentScratch at = make_scratch(sizes.recurrent(), args);
  int64_t end = 0;
  const auto next = [&](int64_t columns) {
    end += columns;
    return column_slice(at.projected, end - columns, end);
  };
  const TensorView values = next(sizes.inner);
  const TensorView z = next(sizes.inner);
  const TensorView selected = next(sizes.selected());
  const TensorView dt = next(sizes.inner);
  apply(run, mamba.in_proj, column_slice(at.projected, 0, 2 * sizes.inner), args.x);
  apply(run, mamba.conv, values, args.batch, args.state);
  apply(run, mamba.x_proj, selected, values);
  const TensorView low_rank_dt = column_slice(selected, 0, sizes.rank);
  const TensorView B = column_slice(selected, sizes.rank, sizes.rank + sizes.state);
  const TensorView C = column_slice(selected, sizes.rank + sizes.state, sizes.selected());
  if (mamba.dt_norm) apply(run, *mamba.dt_norm, low_rank_dt, low_rank_dt);
  if (mamba.b_norm) apply(run, *mamba.b_norm, B, B);
  if (mamba.c_norm) apply(run, *mamba.c_norm, C, C);
  apply(run, mamba.dt_proj, dt, low_rank_dt);
  const TensorView a =
      make_view(const_cast<std::byte*>(mamba.A.data()), DType::kF32, Shape{sizes.state, sizes.inner});
  run(ops::SelectiveScan{.out = at.result,
                         .x = values,
                         .dt = dt,
                         .B = B,
                         .C = C,
                         .A = a,
                         .D = vector_view(mamba.D, sizes.inner),
                         .batch = args.batch.states,
                         .state = args.state.recurrence});
  run(ops::Gate{.out = at.result, .x = at.result, .gate = z, .activation = Activation::kSilu});
  apply(run, mamba.out_proj, args.out, at.result, args.residual);
}

void visit(const Mamba1Spec& spec, const InputSpec& x, ParamVisitor& visitor, Mamba1& mamba) {
  const Mamba1Sizes& sizes = spec.sizes;
  const RecurrentSizes state = sizes.recurrent();
  mamba.sizes = sizes;
  ParamSpec in = after_norm(column_parallel(recurrent::kInProj, 2 * sizes.inner, x.size), x.norm);
  visit_matrix(visitor, "state in", with_bias(in, spec.bias), mamba.in_proj);
  const ParamSpec conv = column_parallel(recurrent::kConv1d, sizes.inner, sizes.conv_kernel);
  visit_conv(visitor, {with_bias(conv, spec.conv_bias)}, state, spec.activation, mamba.conv);
  // The decay depends exponentially on dt, so its projections stay float32.
  visit_matrix(visitor, "state steps",
               not_quantizable(row_parallel(mamba1::kXProj, sizes.selected(), sizes.inner)), mamba.x_proj,
               Precision::kFloat32);
  if (spec.norms) {
    const auto visit_one = [&](ParamId id, int64_t size, std::optional<Norm>& norm) {
      norm = unit_norm(size, spec.norm_eps);
      if (spec.norm_weights) visit_norm(visitor, replicated(id, size), *norm);
    };
    visit_one(mamba1::kDtNorm, sizes.rank, mamba.dt_norm);
    visit_one(mamba1::kBNorm, sizes.state, mamba.b_norm);
    visit_one(mamba1::kCNorm, sizes.state, mamba.c_norm);
  }
  visit_matrix(visitor, "state steps",
               with_bias(not_quantizable(column_parallel(mamba1::kDtProj, sizes.inner, sizes.rank)), true),
               mamba.dt_proj, Precision::kFloat32);
  const int64_t inner = sizes.inner;
  const int64_t n = sizes.state;
  visit_vector(visitor, column_parallel(recurrent::kALog, inner, n), mamba.A, [inner, n](Buffer stored) {
    const Buffer a = negative_exp(std::move(stored));  // [d_inner, d_state]
    Buffer transposed(a.size());
    for (int64_t c = 0; c < inner; ++c) {
      for (int64_t s = 0; s < n; ++s) transposed.as<float>()[s * inner + c] = a.as<float>()[c * n + s];
    }
    return transposed;
  });
  visit_vector(visitor, column_parallel(recurrent::kD, inner, 0), mamba.D);
  const ParamSpec out = row_parallel(recurrent::kOutProj, x.size, inner);
  visit_matrix(visitor, "state out", with_bias(out, spec.bias), mamba.out_proj);
}

}  // namespace quire
