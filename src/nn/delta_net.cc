#include "nn/delta_net.h"

#include <algorithm>
#include <cmath>

namespace quire {

// x / sqrt(sum(x^2) + 1e-6), which is an RMS norm: the mean is the sum divided by the size.
Norm length_norm(int64_t size, float length) {
  Norm norm;
  norm.eps = 1e-6F / static_cast<float>(size);
  norm.size = size;
  norm.weight = Buffer(static_cast<size_t>(size) * sizeof(float));
  const double weight = length / std::sqrt(static_cast<double>(size));
  std::fill_n(norm.weight.as<float>(), size, static_cast<float>(weight));
  return norm;
}

void apply(const OpRunner& run, const DeltaNet& net, const MixerArgs& args) {
  const DeltaNetSizes& sizes = net.sizes;
  const RecurrentScratch at = make_scratch(sizes.recurrent(), args);
  const int64_t wide = sizes.channels() + sizes.values();
  apply(run, net.in_proj, column_slice(at.projected, 0, wide), args.x);
  apply(run, net.ba_proj, column_slice(at.projected, wide, sizes.projected()), args.x);
  int64_t end = 0;
  const auto next = [&](int64_t columns) {
    end += columns;
    return column_slice(at.projected, end - columns, end);
  };
  const TensorView queries = head_view(next(sizes.keys()), sizes.key_heads);
  const TensorView keys = head_view(next(sizes.keys()), sizes.key_heads);
  const TensorView values = next(sizes.values());
  const TensorView z = next(sizes.values());
  const TensorView beta = next(sizes.value_heads);
  const TensorView a = next(sizes.value_heads);
  apply(run, net.conv, column_slice(at.projected, 0, sizes.channels()), args.batch, args.state);
  apply(run, net.query_norm, queries, queries);
  apply(run, net.key_norm, keys, keys);
  run(ops::Activate{.x = beta, .activation = Activation::kSigmoid});
  if (net.beta_scale != 1.0F) run(ops::ScaleSoftcap{.x = beta, .scale = net.beta_scale});
  run(ops::DecayGates{.decay = at.decay,
                      .dt = a,
                      .dt_bias = vector_view(net.dt_bias, sizes.value_heads),
                      .A = vector_view(net.A, sizes.value_heads)});
  // With in_turn, value head h belongs to key head h % key_heads: one call per group of key_heads value
  // heads.
  const int64_t turns = sizes.in_turn ? sizes.value_heads / sizes.key_heads : 1;
  const int64_t heads = sizes.value_heads / turns;
  for (int64_t begin = 0; begin < sizes.value_heads; begin += heads) {
    const auto part = [&](const TensorView& all, int64_t size) {
      return column_slice(all, begin * size, (begin + heads) * size);
    };
    const auto part_of_heads = [&](const TensorView& all) {
      return head_view(part(all, sizes.value_dim), heads);
    };
    StateView states = args.state.recurrence;
    states.places = states.places.subspan(static_cast<size_t>(begin), static_cast<size_t>(heads));
    run(ops::DeltaRule{.out = part_of_heads(at.result),
                       .q = queries,
                       .k = keys,
                       .v = part_of_heads(values),
                       .decay = part(at.decay, 1),
                       .beta = part(beta, 1),
                       .batch = args.batch.states,
                       .state = states});
  }
  const TensorView result = head_view(at.result, sizes.value_heads);
  apply(run, net.norm, result, result);
  run(ops::Gate{.out = at.result, .x = at.result, .gate = z, .activation = Activation::kSilu});
  apply(run, net.out_proj, args.out, at.result, args.residual);
}

void visit(const DeltaNetSpec& spec, const InputSpec& x, ParamVisitor& visitor, DeltaNet& net) {
  const DeltaNetSizes& sizes = spec.sizes;
  const RecurrentSizes state = sizes.recurrent();
  const auto project = [&](ParamId id, int64_t out, int64_t unit) {
    return after_norm(column_parallel(id, out, x.size, unit), x.norm);
  };
  net.sizes = sizes;
  net.beta_scale = spec.beta_scale;
  visitor.matrix({.label = "state in",
                  .fused = {project(delta_net::kQProj, sizes.keys(), sizes.key_dim),
                            project(delta_net::kKProj, sizes.keys(), sizes.key_dim),
                            project(delta_net::kVProj, sizes.values(), sizes.value_dim),
                            project(recurrent::kGProj, sizes.values(), sizes.value_dim)}},
                 net.in_proj);
  visitor.matrix({.label = "state steps",
                  .fused = {not_quantizable(project(delta_net::kBProj, sizes.value_heads, 1)),
                            not_quantizable(project(delta_net::kAProj, sizes.value_heads, 1))},
                  .precision = Precision::kFloat32},
                 net.ba_proj);
  visit_conv(visitor,
             {column_parallel(delta_net::kQConv1d, sizes.keys(), sizes.conv_kernel, sizes.key_dim),
              column_parallel(delta_net::kKConv1d, sizes.keys(), sizes.conv_kernel, sizes.key_dim),
              column_parallel(delta_net::kVConv1d, sizes.values(), sizes.conv_kernel, sizes.value_dim)},
             state, spec.activation, net.conv);
  const double key_dim = sizes.key_dim;
  net.query_norm = length_norm(sizes.key_dim, static_cast<float>(1.0 / std::sqrt(key_dim)));
  net.key_norm = length_norm(sizes.key_dim, 1.0F);
  visit_vector(visitor, column_parallel(recurrent::kDtBias, sizes.value_heads, 0), net.dt_bias);
  visit_vector(visitor, column_parallel(recurrent::kALog, sizes.value_heads, 0), net.A, negative_exp);
  net.norm.eps = *spec.norm_eps;
  net.norm.size = sizes.value_dim;
  visit_vector(visitor, replicated(recurrent::kNorm, sizes.value_dim), net.norm.weight);
  visit_matrix(visitor, "state out",
               row_parallel(recurrent::kOutProj, x.size, sizes.values(), sizes.value_dim), net.out_proj);
}

}  // namespace quire
