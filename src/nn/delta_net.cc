// Gated delta nets (arXiv 2412.06464): each head has a [key_dim, value_dim] state that decays at every token
// and is updated by the delta rule. Kimi delta attention (arXiv 2510.26692) is a gated delta net with one
// decay per key dimension instead of one per head.
#include "nn/delta_net_spec.h"

#include <algorithm>
#include <cmath>

#include "nn/recurrent.h"

namespace quire {
namespace {

// The common part of both.
template <class Spec>
struct DeltaMixer : RecurrentMixer<Spec> {
  Norm query_norm;  // scales to length 1 / sqrt(key_dim)
  Norm key_norm;    // scales to length 1
  Buffer dt_bias;   // float32 [decays]
  Buffer A;         // float32 [decays]: -exp(A_log)
  Norm norm;        // [value_dim], over each head

  using RecurrentMixer<Spec>::RecurrentMixer;
  void visit_common(int64_t key_dim, int64_t keys, int64_t value_dim, int64_t values, float norm_eps,
                    ParamVisitor& visitor);
};

// The norm that scales vectors of `size` elements to the given length: x / sqrt(sum(x^2) + 1e-6), which is an
// RMS norm, because the mean is the sum divided by the size.
Norm length_norm(int64_t size, double length) {
  const double weight = static_cast<float>(length) / std::sqrt(static_cast<double>(size));
  return {.eps = 1e-6F / static_cast<float>(size),
          .weight = filled(size, static_cast<float>(weight)),
          .size = size};
}

// The convolution and the norms.
template <class Spec>
void DeltaMixer<Spec>::visit_common(int64_t key_dim, int64_t keys, int64_t value_dim, int64_t values,
                                    float norm_eps, ParamVisitor& visitor) {
  const RecurrentSizes sizes = this->spec.recurrent();
  ParamSpec q = column_parallel(delta_net::kQConv1d, keys, sizes.conv_kernel, key_dim);
  q.equal_parts = true;  // transformers saves the convolution of a gated delta net in thirds
  visit_conv(visitor,
             {q, column_parallel(delta_net::kKConv1d, keys, sizes.conv_kernel, key_dim),
              column_parallel(delta_net::kVConv1d, values, sizes.conv_kernel, value_dim)},
             sizes, this->spec.activation, this->conv);
  query_norm = length_norm(key_dim, 1.0 / std::sqrt(static_cast<double>(key_dim)));
  key_norm = length_norm(key_dim, 1.0);
  norm = {.eps = norm_eps, .size = value_dim};
  visit_recurrent_norm(visitor, value_dim, 0, norm);
}

// A projection of x that is split by head.
ParamSpec by_head(const InputSpec& x, ParamId id, int64_t out, int64_t unit) {
  return after_norm(column_parallel(id, out, x.size, unit), x.norm);
}

std::vector<ParamSpec> qkv_specs(const InputSpec& x, int64_t key_dim, int64_t keys, int64_t value_dim,
                                 int64_t values) {
  return {by_head(x, delta_net::kQProj, keys, key_dim), by_head(x, delta_net::kKProj, keys, key_dim),
          by_head(x, delta_net::kVProj, values, value_dim)};
}

struct DeltaNet final : DeltaMixer<DeltaNetSpec> {
  // in_proj: [channels + values, hidden]: q, k, v, output gate z
  Linear ba_proj;  // [2 value_heads, hidden]: beta, decay a

  using DeltaMixer::DeltaMixer;
  void forward(const OpRunner& run, const MixerArgs& args) const override;
  void visit(const InputSpec& x, ParamVisitor& visitor) override;
};

void DeltaNet::forward(const OpRunner& run, const MixerArgs& args) const {
  const RecurrentScratch at{spec.recurrent(), args.layout()};
  const int64_t wide = spec.channels() + spec.values();
  apply(run, in_proj, column_slice(at.projected, 0, wide), args.x);
  apply(run, ba_proj, column_slice(at.projected, wide, spec.projected()), args.x);
  ColumnParts parts(at.projected);
  const TensorView queries = head_view(parts.next(spec.keys()), spec.key_heads);
  const TensorView keys = head_view(parts.next(spec.keys()), spec.key_heads);
  const TensorView values = parts.next(spec.values());
  const TensorView z = parts.next(spec.values());
  const TensorView beta = parts.next(spec.value_heads);
  const TensorView a = parts.next(spec.value_heads);
  apply(run, conv, column_slice(at.projected, 0, spec.channels()), args.batch, args.state);
  apply(run, query_norm, queries, queries);
  apply(run, key_norm, keys, keys);
  run(ops::Activate{.x = beta, .activation = Activation::kSigmoid});
  if (spec.beta_scale != 1.0F) run(ops::ScaleSoftcap{.x = beta, .scale = spec.beta_scale});
  run(ops::DecayGates{.decay = at.decay,
                      .dt = a,
                      .dt_bias = vector_view(dt_bias, spec.value_heads),
                      .A = vector_view(A, spec.value_heads)});
  // With in_turn, value head h belongs to key head h % key_heads: one call per group of key_heads value
  // heads.
  const int64_t turns = spec.in_turn ? spec.value_heads / spec.key_heads : 1;
  const int64_t heads = spec.value_heads / turns;
  for (int64_t begin = 0; begin < spec.value_heads; begin += heads) {
    const auto part = [&](const TensorView& all, int64_t size) {
      return column_slice(all, begin * size, (begin + heads) * size);
    };
    StateView states = args.state.recurrence;
    states.parts = states.parts.subspan(static_cast<size_t>(begin), static_cast<size_t>(heads));
    run(ops::DeltaRule{.out = head_view(part(at.result, spec.value_dim), heads),
                       .q = queries,
                       .k = keys,
                       .v = head_view(part(values, spec.value_dim), heads),
                       .decay = part(at.decay, 1),
                       .beta = part(beta, 1),
                       .batch = args.batch.states,
                       .state = states});
  }
  const TensorView result = head_view(at.result, spec.value_heads);
  apply(run, norm, result, result);
  run(ops::Gate{.out = at.result, .x = at.result, .gate = z, .activation = Activation::kSilu});
  apply(run, out_proj, args.out, at.result, args.residual);
}

void DeltaNet::visit(const InputSpec& x, ParamVisitor& visitor) {
  const int64_t heads = spec.value_heads;
  MatrixSpec in{.label = "state in",
                .fused = qkv_specs(x, spec.key_dim, spec.keys(), spec.value_dim, spec.values())};
  in.fused.push_back(g_proj_spec(x, spec.values(), spec.value_dim));
  visitor.matrix(in, in_proj);
  visitor.matrix({.label = "state steps",
                  .fused = {by_head(x, delta_net::kBProj, heads, 1), by_head(x, delta_net::kAProj, heads, 1)},
                  .precision = Precision::kFloat32},
                 ba_proj);
  visit_common(spec.key_dim, spec.keys(), spec.value_dim, spec.values(), spec.norm_eps, visitor);
  visit_dt_bias(visitor, heads, 1, dt_bias);
  visit_A(visitor, heads, 0, nullptr, A);
  visit_out_proj(visitor, x, spec.values(), spec.value_dim, false, out_proj);
}

struct KimiDelta final : DeltaMixer<KimiDeltaSpec> {
  // in_proj: [wide, hidden]: q, k, v, and g and f if there is no rank
  Linear bgf_a_proj;               // [narrow, hidden]: beta, g_a_proj, f_a_proj
  std::optional<Linear> g_b_proj;  // [inner, rank]
  std::optional<Linear> f_b_proj;  // [inner, rank]

  using DeltaMixer::DeltaMixer;
  void forward(const OpRunner& run, const MixerArgs& args) const override;
  void visit(const InputSpec& x, ParamVisitor& visitor) override;
};

void KimiDelta::forward(const OpRunner& run, const MixerArgs& args) const {
  const RecurrentScratch at{spec.recurrent(), args.layout()};
  const int64_t inner = spec.inner();
  ColumnParts parts(at.projected);
  const TensorView queries = head_view(parts.next(inner), spec.heads);
  const TensorView keys = head_view(parts.next(inner), spec.heads);
  const TensorView values = head_view(parts.next(inner), spec.heads);
  const TensorView g = parts.next(inner);
  const TensorView f = parts.next(inner);
  const TensorView narrow = parts.next(spec.narrow());
  ColumnParts of_narrow(narrow);
  const TensorView beta = of_narrow.next(spec.heads);
  apply(run, in_proj, column_slice(at.projected, 0, spec.wide()), args.x);
  apply(run, bgf_a_proj, narrow, args.x);
  if (g_b_proj) {
    apply(run, *g_b_proj, g, of_narrow.next(spec.rank));
    apply(run, *f_b_proj, f, of_narrow.next(spec.rank));
  }
  apply(run, conv, column_slice(at.projected, 0, spec.channels()), args.batch, args.state);
  apply(run, query_norm, queries, queries);
  apply(run, key_norm, keys, keys);
  run(ops::Activate{.x = beta, .activation = Activation::kSigmoid});
  run(ops::DecayGates{.decay = at.decay,
                      .dt = f,
                      .dt_bias = vector_view(dt_bias, inner),
                      .A = vector_view(A, inner),
                      .params = {.bound = spec.lower_bound}});
  const TensorView result = head_view(at.result, spec.heads);
  run(ops::DeltaRule{.out = result,
                     .q = queries,
                     .k = keys,
                     .v = values,
                     .decay = at.decay,
                     .beta = beta,
                     .batch = args.batch.states,
                     .state = args.state.recurrence});
  apply(run, norm, result, result);
  run(ops::Gate{.out = at.result, .x = at.result, .gate = g, .activation = Activation::kSigmoid});
  apply(run, out_proj, args.out, at.result, args.residual);
}

void KimiDelta::visit(const InputSpec& x, ParamVisitor& visitor) {
  const bool low_rank = spec.rank > 0;
  const int64_t inner = spec.inner();
  const int64_t dim = spec.head_dim;
  const int64_t heads = spec.heads;
  // g and f read the hidden states (Bailing hybrid) or the outputs of g_a_proj and f_a_proj (Kimi Linear).
  ParamSpec g = g_proj_spec(x, inner, dim);
  ParamSpec f = not_quantizable(by_head(x, delta_net::kAProj, inner, dim));
  if (low_rank) g.in = f.in = spec.rank;
  if (low_rank) g.input_norm = f.input_norm = {};
  MatrixSpec in{.label = "state in", .fused = qkv_specs(x, dim, inner, dim, inner)};
  if (!low_rank) in.fused.insert(in.fused.end(), {g, f});
  visitor.matrix(in, in_proj);
  if (low_rank) {
    visit_matrix(visitor, "state gates", g, g_b_proj.emplace());
    visit_matrix(visitor, "state steps", f, f_b_proj.emplace(), Precision::kFloat32);
  }
  MatrixSpec narrow{.label = "state steps", .precision = Precision::kFloat32};
  const auto add_narrow = [&](ParamId id, int64_t out) {
    narrow.fused.push_back(after_norm(replicated(id, out, x.size), x.norm));
  };
  add_narrow(delta_net::kBProj, heads);
  if (low_rank) add_narrow(delta_net::kGAProj, spec.rank);
  if (low_rank) add_narrow(delta_net::kFAProj, spec.rank);
  visitor.matrix(narrow, bgf_a_proj);
  visit_common(dim, inner, dim, inner, spec.norm_eps, visitor);
  visit_dt_bias(visitor, inner, dim, dt_bias);
  const auto repeat = [heads, dim](const Buffer& a) {  // one value per head, repeated for each dimension
    Buffer repeated(static_cast<size_t>(heads * dim) * sizeof(float));
    for (int64_t h = 0; h < heads; ++h) std::fill_n(repeated.as<float>() + h * dim, dim, a.as<float>()[h]);
    return repeated;
  };
  visit_A(visitor, heads, 0, repeat, A);
  visit_out_proj(visitor, x, inner, dim, false, out_proj);
}

}  // namespace

std::unique_ptr<Mixer> make_mixer(const DeltaNetSpec& spec) {
  return std::make_unique<DeltaNet>(spec);
}

std::unique_ptr<Mixer> make_mixer(const KimiDeltaSpec& spec) {
  return std::make_unique<KimiDelta>(spec);
}

}  // namespace quire
