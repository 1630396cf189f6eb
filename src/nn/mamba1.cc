// Mamba (arXiv 2312.00752): a causal convolution, then a selective state space model. Each channel has
// d_state state elements; dt, B and C are computed from the token.
#include "nn/mamba1_spec.h"

#include <optional>

#include "nn/recurrent.h"

namespace quire {
namespace {

struct Mamba1 final : RecurrentMixer<Mamba1Spec> {
  // in_proj: [2 inner, hidden]: x, z
  Linear x_proj;                // [rank + 2 state, inner]: dt, B, C
  std::optional<Norm> dt_norm;  // dt_layernorm
  std::optional<Norm> b_norm;   // b_layernorm
  std::optional<Norm> c_norm;   // c_layernorm
  Linear dt_proj;               // [inner, rank]
  Buffer A;                     // float32 [state, inner]: -exp(A_log)
  Buffer D;                     // float32 [inner]

  using RecurrentMixer::RecurrentMixer;
  void forward(const OpRunner& run, const MixerArgs& args) const override;
  void visit(const InputSpec& x, ParamVisitor& visitor) override;
};

void Mamba1::forward(const OpRunner& run, const MixerArgs& args) const {
  const RecurrentScratch at{spec.recurrent(), args.layout()};
  ColumnParts parts(at.projected);
  const TensorView values = parts.next(spec.inner);
  const TensorView z = parts.next(spec.inner);
  const TensorView selected = parts.next(spec.selected());
  const TensorView dt = parts.next(spec.inner);
  apply(run, in_proj, column_slice(at.projected, 0, 2 * spec.inner), args.x);
  apply(run, conv, values, args.batch, args.state);
  apply(run, x_proj, selected, values);
  ColumnParts of_selected(selected);
  const TensorView low_rank_dt = of_selected.next(spec.rank);
  const TensorView B = of_selected.next(spec.state);
  const TensorView C = of_selected.next(spec.state);
  if (dt_norm) apply(run, *dt_norm, low_rank_dt, low_rank_dt);
  if (b_norm) apply(run, *b_norm, B, B);
  if (c_norm) apply(run, *c_norm, C, C);
  apply(run, dt_proj, dt, low_rank_dt);
  run(ops::SelectiveScan{
      .out = at.result,
      .x = values,
      .dt = dt,
      .B = B,
      .C = C,
      .A = make_view(const_cast<std::byte*>(A.data()), DType::kF32, Shape{spec.state, spec.inner}),
      .D = vector_view(D, spec.inner),
      .batch = args.batch.states,
      .state = args.state.recurrence});
  run(ops::Gate{.out = at.result, .x = at.result, .gate = z, .activation = Activation::kSilu});
  apply(run, out_proj, args.out, at.result, args.residual);
}

void Mamba1::visit(const InputSpec& x, ParamVisitor& visitor) {
  visit_matrix(visitor, "state in", with_bias(in_proj_spec(x, 2 * spec.inner), spec.bias), in_proj);
  visit_conv(visitor, spec.recurrent(), spec.conv_bias, spec.activation, conv);
  // The decay depends exponentially on dt, so its projections stay float32.
  visit_matrix(visitor, "state steps", row_parallel(mamba1::kXProj, spec.selected(), spec.inner), x_proj,
               Precision::kFloat32);
  if (spec.norms) {
    const auto visit_one = [&](ParamId id, int64_t size, std::optional<Norm>& norm) {
      norm = Norm{.eps = spec.norm_eps, .size = size};
      if (spec.norm_weights) return visit_norm(visitor, replicated(id, size), *norm);
      visit_unit_norm(visitor, size, spec.norm_eps, *norm);
    };
    visit_one(mamba1::kDtNorm, spec.rank, dt_norm);
    visit_one(mamba1::kBNorm, spec.state, b_norm);
    visit_one(mamba1::kCNorm, spec.state, c_norm);
  }
  visit_matrix(visitor, "state steps",
               with_bias(column_parallel(mamba1::kDtProj, spec.inner, spec.rank), true), dt_proj,
               Precision::kFloat32);
  const auto transpose = [inner = spec.inner, n = spec.state](const Buffer& a) {
    return transposed(a, inner, n);
  };
  visit_A(visitor, spec.inner, spec.state, transpose, A);
  visit_D(visitor, spec.inner, D);
  visit_out_proj(visitor, x, spec.inner, 1, spec.bias, out_proj);
}

}  // namespace

std::unique_ptr<Mixer> make_mixer(const Mamba1Spec& spec) {
  return std::make_unique<Mamba1>(spec);
}

}  // namespace quire
