// Lightning attention (arXiv 2401.04658): linear attention. Each head has a [head_dim, head_dim] state that
// is multiplied by a constant decay at every token; the product of the token's key and value is added to it.
#include "nn/lightning_spec.h"

#include <cmath>

#include "nn/recurrent.h"

namespace quire {
namespace {

struct Lightning final : RecurrentMixer<LightningSpec> {
  // in_proj: [projected, hidden]. There is no convolution.
  Buffer decay;  // float32 [heads]: factor on the state per token
  Buffer dt;     // float32 [heads], ones: dt of SsmScan
  Buffer D;      // float32 [heads], zeros: D of SsmScan
  Norm norm;     // over all heads at once

  using RecurrentMixer::RecurrentMixer;
  void forward(const OpRunner& run, const MixerArgs& args) const override;
  void visit(const InputSpec& x, ParamVisitor& visitor) override;
};

// The decay of a head's state per token, in layer `layer` of `layers`.
float decay_of(int32_t head, int32_t heads, int32_t layer, int32_t layers) {
  // Later layers decay more slowly.
  constexpr double kLeast = 1e-5;
  const double slope = std::pow(2.0, -8.0 * (head + 1) / heads);
  const double depth = 1.0 - layer / (layers - 1 + kLeast) + kLeast;
  return static_cast<float>(std::exp(-slope * depth));
}

void Lightning::forward(const OpRunner& run, const MixerArgs& args) const {
  const RecurrentScratch at{spec.recurrent(), args.layout()};
  const int64_t inner = spec.inner();
  const int64_t n = args.x.rows();
  apply(run, in_proj, at.projected, args.x);
  run(ops::Activate{.x = column_slice(at.projected, 0, 3 * inner), .activation = spec.activation});
  ColumnParts parts(at.projected);
  const TensorView queries = parts.next(inner);
  const TensorView keys = parts.next(inner);
  const TensorView values = parts.next(inner);
  const TensorView gate = parts.next(inner);
  run(ops::SsmScan{.out = head_view(at.result, spec.heads),
                   .x = head_view(values, spec.heads),
                   .B = head_view(keys, spec.heads),
                   .C = head_view(queries, spec.heads),
                   .decay = same_rows(decay, n, spec.heads),
                   .dt = same_rows(dt, n, spec.heads),
                   .D = vector_view(D, spec.heads),
                   .batch = args.batch.states,
                   .state = args.state.recurrence});
  apply(run, norm, at.result, at.result);
  run(ops::Gate{.out = at.result, .x = at.result, .gate = gate, .activation = Activation::kSigmoid});
  apply(run, out_proj, args.out, at.result, args.residual);
}

// The decays depend on x.layer.
void Lightning::visit(const InputSpec& x, ParamVisitor& visitor) {
  const int64_t dim = spec.head_dim;
  visitor.matrix({.label = "state in",
                  .fused = {in_proj_spec(x, 3 * spec.inner(), 3 * dim), g_proj_spec(x, spec.inner(), dim)}},
                 in_proj);
  visit_filled(visitor, spec.heads, 1.0F, dt);
  visit_filled(visitor, spec.heads, 0.0F, D);
  std::vector<float> decays;
  for (int32_t h = 0; h < spec.heads; ++h) decays.push_back(decay_of(h, spec.heads, x.layer, x.num_layers));
  visit_values(visitor, decays, decay);
  constexpr float kEps =
      1e-6F;  // as in transformers' MiniMaxLightningAttention, regardless of the model's eps
  norm = make_norm(spec.norm, spec.inner());
  norm.eps = kEps;
  visit_recurrent_norm(visitor, spec.inner(), dim, norm);
  visit_out_proj(visitor, x, spec.inner(), dim, false, out_proj);
}

}  // namespace

std::unique_ptr<Mixer> make_mixer(const LightningSpec& spec) {
  return std::make_unique<Lightning>(spec);
}

}  // namespace quire
