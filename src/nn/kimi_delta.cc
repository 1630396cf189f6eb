#include "nn/kimi_delta.h"

#include <algorithm>
#include <cmath>

#include "nn/delta_net.h"

namespace quire {

void apply(const OpRunner& run, const KimiDelta& net, const MixerArgs& args) {
  const KimiDeltaSizes& sizes = net.sizes;
  const RecurrentScratch at = make_scratch(sizes.recurrent(), args);
  const int64_t inner = sizes.inner();
  const auto part = [&](int64_t i) { return column_slice(at.projected, i * inner, (i + 1) * inner); };
  const auto heads = [&](const TensorView& all) { return head_view(all, sizes.heads); };
  const TensorView narrow = column_slice(at.projected, 5 * inner, sizes.projected());
  const TensorView g = part(3);
  const TensorView f = part(4);
  apply(run, net.in_proj, column_slice(at.projected, 0, sizes.wide()), args.x);
  apply(run, net.bgf_a_proj, narrow, args.x);
  if (net.g_b_proj) {
    const int64_t begin = sizes.heads;
    apply(run, *net.g_b_proj, g, column_slice(narrow, begin, begin + sizes.rank));
    apply(run, *net.f_b_proj, f, column_slice(narrow, begin + sizes.rank, sizes.narrow()));
  }
  apply(run, net.conv, column_slice(at.projected, 0, sizes.channels()), args.batch, args.state);
  apply(run, net.query_norm, heads(part(0)), heads(part(0)));
  apply(run, net.key_norm, heads(part(1)), heads(part(1)));
  const TensorView beta = column_slice(narrow, 0, sizes.heads);
  run(ops::Activate{.x = beta, .activation = Activation::kSigmoid});
  run(ops::DecayGates{.decay = at.decay,
                      .dt = f,
                      .dt_bias = vector_view(net.dt_bias, inner),
                      .A = vector_view(net.A, inner),
                      .params = {.bound = net.lower_bound}});
  run(ops::DeltaRule{.out = heads(at.result),
                     .q = heads(part(0)),
                     .k = heads(part(1)),
                     .v = heads(part(2)),
                     .decay = at.decay,
                     .beta = beta,
                     .batch = args.batch.states,
                     .state = args.state.recurrence});
  apply(run, net.norm, heads(at.result), heads(at.result));
  run(ops::Gate{.out = at.result, .x = at.result, .gate = g, .activation = Activation::kSigmoid});
  apply(run, net.out_proj, args.out, at.result, args.residual);
}

void visit(const KimiDeltaSpec& spec, const InputSpec& x, ParamVisitor& visitor, KimiDelta& net) {
  const KimiDeltaSizes& sizes = spec.sizes;
  const bool low_rank = sizes.rank > 0;
  const auto by_head = [&](ParamId id) {
    return after_norm(column_parallel(id, sizes.inner(), x.size, sizes.head_dim), x.norm);
  };
  // g and f read the hidden states (Bailing hybrid) or the outputs of g_a_proj and f_a_proj (Kimi Linear).
  ParamSpec g = by_head(recurrent::kGProj);
  ParamSpec f = not_quantizable(by_head(delta_net::kAProj));
  if (low_rank) g.in = f.in = sizes.rank;
  if (low_rank) g.input_norm = f.input_norm = {};
  net.sizes = sizes;
  net.lower_bound = spec.lower_bound;
  MatrixSpec in{
      .label = "state in",
      .fused = {by_head(delta_net::kQProj), by_head(delta_net::kKProj), by_head(delta_net::kVProj)}};
  if (!low_rank) in.fused.insert(in.fused.end(), {g, f});
  visitor.matrix(in, net.in_proj);
  if (low_rank) {
    visit_matrix(visitor, "state gates", g, net.g_b_proj.emplace());
    visit_matrix(visitor, "state steps", f, net.f_b_proj.emplace(), Precision::kFloat32);
  }
  MatrixSpec narrow{.label = "state steps", .precision = Precision::kFloat32};
  const auto add_narrow = [&](ParamId id, int64_t out) {
    narrow.fused.push_back(not_quantizable(after_norm(replicated(id, out, x.size), x.norm)));
  };
  add_narrow(delta_net::kBProj, sizes.heads);
  if (low_rank) add_narrow(delta_net::kGAProj, sizes.rank);
  if (low_rank) add_narrow(delta_net::kFAProj, sizes.rank);
  visitor.matrix(narrow, net.bgf_a_proj);

  const auto conv = [&](ParamId id) {
    return column_parallel(id, sizes.inner(), sizes.conv_kernel, sizes.head_dim);
  };
  visit_conv(visitor, {conv(delta_net::kQConv1d), conv(delta_net::kKConv1d), conv(delta_net::kVConv1d)},
             sizes.recurrent(), spec.activation, net.conv);
  const int64_t dim = sizes.head_dim;
  net.query_norm = length_norm(dim, static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim))));
  net.key_norm = length_norm(dim, 1.0F);
  visit_vector(visitor, column_parallel(recurrent::kDtBias, sizes.inner(), 0, dim), net.dt_bias);
  const int64_t heads = sizes.heads;
  visit_vector(visitor, column_parallel(recurrent::kALog, heads, 0), net.A, [heads, dim](Buffer stored) {
    const Buffer a = negative_exp(std::move(stored));  // one value per head, repeated for each dimension
    Buffer repeated(static_cast<size_t>(heads * dim) * sizeof(float));
    for (int64_t h = 0; h < heads; ++h) std::fill_n(repeated.as<float>() + h * dim, dim, a.as<float>()[h]);
    return repeated;
  });
  net.norm.eps = spec.norm_eps;
  net.norm.size = dim;
  visit_vector(visitor, replicated(recurrent::kNorm, dim), net.norm.weight);
  visit_matrix(visitor, "state out", row_parallel(recurrent::kOutProj, x.size, sizes.inner(), dim),
               net.out_proj);
}

}  // namespace quire
