#include "nn/mamba.h"

namespace quire {

void apply(const OpRunner& run, const Mamba& mamba, const MixerArgs& args) {
  const MambaSizes& sizes = mamba.sizes;
  const RecurrentScratch at = make_scratch(sizes.recurrent(), args);
  const int64_t inner = sizes.inner();
  const int64_t shared = int64_t{sizes.groups} * sizes.state;
  apply(run, mamba.in_proj, at.projected, args.x);
  int64_t end = 0;
  const auto next = [&](int64_t columns) {
    end += columns;
    return column_slice(at.projected, end - columns, end);
  };
  const TensorView z = next(inner);
  const TensorView x_part = next(inner);
  const TensorView B = next(shared);
  const TensorView C = next(shared);
  const TensorView dt = next(sizes.heads);
  if (!mamba.multipliers.empty()) {
    size_t i = 0;
    for (const TensorView& part : {z, x_part, B, C, dt})
      run(ops::ScaleSoftcap{.x = part, .scale = mamba.multipliers[i++]});
  }
  apply(run, mamba.conv, column_slice(at.projected, inner, inner + sizes.channels()), args.batch, args.state);
  run(ops::DecayGates{.decay = at.decay,
                      .dt = dt,
                      .dt_bias = vector_view(mamba.dt_bias, sizes.heads),
                      .A = vector_view(mamba.A, sizes.heads),
                      .params = {.low = mamba.min_dt, .high = mamba.max_dt}});
  run(ops::SsmScan{.out = head_view(at.result, sizes.heads),
                   .x = head_view(x_part, sizes.heads),
                   .B = head_view(B, sizes.groups),
                   .C = head_view(C, sizes.groups),
                   .decay = at.decay,
                   .dt = dt,
                   .D = vector_view(mamba.D, sizes.heads),
                   .batch = args.batch.states,
                   .state = args.state.recurrence});
  if (mamba.norm && mamba.norm_before_gate) apply_each(run, *mamba.norm, at.result);
  run(ops::Gate{.out = at.result, .x = at.result, .gate = z, .activation = Activation::kSilu});
  if (mamba.norm && !mamba.norm_before_gate) apply_each(run, *mamba.norm, at.result);
  apply(run, mamba.out_proj, args.out, at.result, args.residual);
}

void visit(const MambaSpec& spec, const InputSpec& x, ParamVisitor& visitor, Mamba& mamba) {
  const MambaSizes& sizes = spec.sizes;
  const RecurrentSizes state = sizes.recurrent();
  mamba.sizes = sizes;
  mamba.multipliers = spec.multipliers;
  // Heads are split over ranks, groups stay whole; the split of a fused in_proj follows its parts.
  ParamSpec in = after_norm(column_parallel(recurrent::kInProj, sizes.projected(), x.size), x.norm);
  visit_matrix(visitor, "state in", with_bias(in, spec.in_bias), mamba.in_proj);
  const ParamSpec conv = column_parallel(recurrent::kConv1d, state.channels, state.conv_kernel);
  visit_conv(visitor, {with_bias(conv, spec.conv_bias)}, state, spec.activation, mamba.conv);
  visit_vector(visitor, column_parallel(recurrent::kDtBias, sizes.heads, 0), mamba.dt_bias);
  visit_vector(visitor, column_parallel(recurrent::kALog, sizes.heads, 0), mamba.A, negative_exp);
  visit_vector(visitor, column_parallel(recurrent::kD, sizes.heads, 0), mamba.D);
  mamba.min_dt = spec.min_dt;
  mamba.max_dt = spec.max_dt;
  if (spec.norm) {
    Norm& norm = mamba.norm.emplace();
    norm.eps = *spec.norm_eps;
    norm.size = sizes.inner() / sizes.groups;
    visit_vector(visitor, column_parallel(recurrent::kNorm, sizes.inner(), 0, norm.size), norm.weight);
  }
  mamba.norm_before_gate = spec.norm_before_gate;
  const ParamSpec out = row_parallel(recurrent::kOutProj, x.size, sizes.inner(), sizes.head_dim);
  visit_matrix(visitor, "state out", with_bias(out, spec.out_bias), mamba.out_proj);
}

}  // namespace quire
