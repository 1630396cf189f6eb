#include "nn/lightning.h"

#include <algorithm>
#include <cmath>

namespace quire {

float lightning_decay(int32_t head, int32_t heads, int32_t layer, int32_t layers) {
  // Later layers decay more slowly.
  constexpr double kLeast = 1e-5;
  const double slope = std::pow(2.0, -8.0 * (head + 1) / heads);
  const double depth = 1.0 - layer / (layers - 1 + kLeast) + kLeast;
  return static_cast<float>(std::exp(-slope * depth));
}

void apply(const OpRunner& run, const Lightning& lightning, const MixerArgs& args) {
  const LightningSizes& sizes = lightning.sizes;
  const RecurrentScratch at = make_scratch(sizes.recurrent(), args);
  const int64_t inner = sizes.inner();
  apply(run, lightning.in_proj, at.projected, args.x);
  run(ops::Activate{.x = column_slice(at.projected, 0, 3 * inner), .activation = lightning.activation});
  const auto part = [&](int64_t i) { return column_slice(at.projected, i * inner, (i + 1) * inner); };
  const TensorView queries = head_view(part(0), sizes.heads);
  const TensorView keys = head_view(part(1), sizes.heads);
  const TensorView values = head_view(part(2), sizes.heads);
  run(ops::SsmScan{.out = head_view(at.result, sizes.heads),
                   .x = values,
                   .B = keys,
                   .C = queries,
                   .decay = same_rows(lightning.decay, args.x.rows(), sizes.heads),
                   .dt = same_rows(lightning.dt, args.x.rows(), sizes.heads),
                   .D = vector_view(lightning.D, sizes.heads),
                   .batch = args.batch.states,
                   .state = args.state.recurrence});
  apply(run, lightning.norm, at.result, at.result);
  run(ops::Gate{.out = at.result, .x = at.result, .gate = part(3), .activation = Activation::kSigmoid});
  apply(run, lightning.out_proj, args.out, at.result, args.residual);
}

void visit(const LightningSpec& spec, const InputSpec& x, ParamVisitor& visitor, Lightning& lightning) {
  const LightningSizes& sizes = spec.sizes;
  const int64_t dim = sizes.head_dim;
  lightning.activation = spec.activation;
  lightning.norm = make_norm(spec.norm, sizes.inner());
  lightning.sizes = sizes;
  const ParamSpec qkv = column_parallel(recurrent::kInProj, 3 * sizes.inner(), x.size, 3 * dim);
  const ParamSpec gate = column_parallel(recurrent::kGProj, sizes.inner(), x.size, dim);
  visitor.matrix({.label = "state in", .fused = {after_norm(qkv, x.norm), after_norm(gate, x.norm)}},
                 lightning.in_proj);
  const int32_t heads = sizes.heads;
  const size_t bytes = static_cast<size_t>(heads) * sizeof(float);
  lightning.decay = Buffer(bytes);
  lightning.dt = Buffer(bytes);
  lightning.D = Buffer(bytes);
  for (int32_t h = 0; h < heads; ++h)
    lightning.decay.as<float>()[h] = lightning_decay(h, heads, x.layer, x.num_layers);
  std::fill_n(lightning.dt.as<float>(), heads, 1.0F);
  std::fill_n(lightning.D.as<float>(), heads, 0.0F);
  constexpr float kEps =
      1e-6F;  // as in transformers' MiniMaxLightningAttention, regardless of the model's eps
  lightning.norm.eps = kEps;
  visit_norm(visitor, column_parallel(recurrent::kNorm, sizes.inner(), 0, dim), lightning.norm);
  visit_matrix(visitor, "state out", row_parallel(recurrent::kOutProj, x.size, sizes.inner(), dim),
               lightning.out_proj);
}

}  // namespace quire
