// Mamba 2 (arXiv 2405.21060): a causal convolution, then a state space model with one [d_state, head_dim]
// state and one decay per head.
#include "nn/mamba_spec.h"

#include <optional>

#include "nn/recurrent.h"

namespace quire {
namespace {

struct Mamba final : RecurrentMixer<MambaSpec> {
  // in_proj: [projected, hidden]
  Buffer dt_bias;            // float32 [heads]
  Buffer A;                  // float32 [heads]: -exp(A_log)
  Buffer D;                  // float32 [heads]
  std::optional<Norm> norm;  // over each group; the weight is [groups, inner / groups]

  using RecurrentMixer::RecurrentMixer;
  void forward(const OpRunner& run, const MixerArgs& args) const override;
  void visit(const InputSpec& x, ParamVisitor& visitor) override;
};

void Mamba::forward(const OpRunner& run, const MixerArgs& args) const {
  const RecurrentScratch at{spec.recurrent(), args.layout()};
  const int64_t inner = spec.inner();
  const int64_t shared = int64_t{spec.groups} * spec.state;
  apply(run, in_proj, at.projected, args.x);
  ColumnParts parts(at.projected);
  const TensorView z = parts.next(inner);
  const TensorView x = parts.next(inner);
  const TensorView B = parts.next(shared);
  const TensorView C = parts.next(shared);
  const TensorView dt = parts.next(spec.heads);
  if (!spec.multipliers.empty()) {
    size_t i = 0;
    for (const TensorView& part : {z, x, B, C, dt})
      run(ops::ScaleSoftcap{.x = part, .scale = spec.multipliers[i++]});
  }
  apply(run, conv, column_slice(at.projected, inner, inner + spec.channels()), args.batch, args.state);
  run(ops::DecayGates{.decay = at.decay,
                      .dt = dt,
                      .dt_bias = vector_view(dt_bias, spec.heads),
                      .A = vector_view(A, spec.heads),
                      .params = {.low = spec.min_dt, .high = spec.max_dt}});
  run(ops::SsmScan{.out = head_view(at.result, spec.heads),
                   .x = head_view(x, spec.heads),
                   .B = head_view(B, spec.groups),
                   .C = head_view(C, spec.groups),
                   .decay = at.decay,
                   .dt = dt,
                   .D = vector_view(D, spec.heads),
                   .batch = args.batch.states,
                   .state = args.state.recurrence});
  if (norm && spec.norm_before_gate) apply_each(run, *norm, at.result);
  run(ops::Gate{.out = at.result, .x = at.result, .gate = z, .activation = Activation::kSilu});
  if (norm && !spec.norm_before_gate) apply_each(run, *norm, at.result);
  apply(run, out_proj, args.out, at.result, args.residual);
}

void Mamba::visit(const InputSpec& x, ParamVisitor& visitor) {
  // Heads are split over ranks, groups stay whole; the split of a fused in_proj follows its parts.
  visit_matrix(visitor, "state in", with_bias(in_proj_spec(x, spec.projected()), spec.in_bias), in_proj);
  visit_conv(visitor, spec.recurrent(), spec.conv_bias, spec.activation, conv);
  visit_dt_bias(visitor, spec.heads, 1, dt_bias);
  visit_A(visitor, spec.heads, 0, nullptr, A);
  visit_D(visitor, spec.heads, D);
  if (spec.norm) {
    norm = Norm{.eps = spec.norm_eps, .size = spec.inner() / spec.groups};
    visit_recurrent_norm(visitor, spec.inner(), norm->size, *norm);
  }
  visit_out_proj(visitor, x, spec.inner(), spec.head_dim, spec.out_bias, out_proj);
}

}  // namespace

std::unique_ptr<Mixer> make_mixer(const MambaSpec& spec) {
  return std::make_unique<Mamba>(spec);
}

}  // namespace quire
