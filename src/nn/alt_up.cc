#include "nn/alt_up.h"

#include <numeric>

#include "nn/scratch.h"

namespace quire {
namespace {

constexpr float kLeastSquare = 1e-5F;  // minimum mean square of a stream before it is scaled

int64_t num_streams(const AltUpScratch& at) {
  return at.scores.row_size();
}
TensorView stream(const TensorView& all, int64_t index, int64_t hidden) {
  return column_slice(all, index * hidden, (index + 1) * hidden);
}
void copy(const OpRunner& run, const TensorView& out, const TensorView& x, const AltUpScratch& at) {
  run(ops::GatherRows{.out = out, .x = x, .rows = at.row_indices.first(static_cast<size_t>(x.rows()))});
}

// scores = tanh(router(norm(x))), from which the mixing coefficients follow. branch is scratch.
void score(const OpRunner& run, const AltUp& alt_up, const TensorView& x, const TensorView& branch,
           const AltUpScratch& at) {
  apply(run, alt_up.router_norm, branch, x);
  apply(run, alt_up.router, at.scores, branch);
  run(ops::ScaleSoftcap{.x = at.scores, .scale = 1.0F, .cap = 1.0F});  // tanh
}

}  // namespace

AltUpScratch make_scratch(const AltUpSpec& spec, ScratchLayout& layout) {
  AltUpScratch out;
  out.streams = layout.matrix(spec.streams * spec.hidden);
  out.predicted = layout.matrix(spec.streams * spec.hidden);
  out.scores = layout.matrix(spec.streams);
  out.shares = layout.matrix(int64_t{spec.streams} * spec.streams);
  out.narrow = layout.matrix(spec.rank);
  out.row_indices = layout.constants(layout.rows() * spec.streams,
                                     [](std::span<int32_t> rows) { std::iota(rows.begin(), rows.end(), 0); });
  return out;
}

AltUpScratch part_of(const AltUpScratch& scratch, int64_t rows) {
  const auto part = [&](const TensorView& view) { return row_slice(view, 0, rows); };
  return {part(scratch.streams), part(scratch.predicted),
          part(scratch.scores),  part(scratch.shares),
          part(scratch.narrow),  scratch.row_indices.first(static_cast<size_t>(rows * num_streams(scratch)))};
}

void begin_streams(const OpRunner& run, const AltUpEnds& ends, const TensorView& hidden,
                   const AltUpScratch& at) {
  const int64_t size = hidden.row_size();
  copy(run, stream(at.streams, 0, size), hidden, at);
  for (size_t i = 0; i < ends.in.size(); ++i) {
    const TensorView other = stream(at.streams, static_cast<int64_t>(i) + 1, size);
    apply(run, ends.in[i], other, hidden);
    run(ops::MatchRms{.x = other, .target = hidden, .min_mean_square = kLeastSquare});
  }
}

void join_streams(const OpRunner& run, const AltUpEnds& ends, const TensorView& hidden,
                  const TensorView& branch, const AltUpScratch& at) {
  const int64_t size = hidden.row_size();
  const TensorView first = stream(at.streams, 0, size);
  copy(run, hidden, first, at);
  for (size_t i = 0; i < ends.out.size(); ++i) {
    apply(run, ends.out[i], branch, stream(at.streams, static_cast<int64_t>(i) + 1, size));
    run(ops::MatchRms{.x = branch, .target = first, .min_mean_square = kLeastSquare});
    run(ops::Add{.x = hidden, .y = branch});
  }
  run(ops::ScaleSoftcap{.x = hidden, .scale = 1.0F / static_cast<float>(num_streams(at))});
}

void predict(const OpRunner& run, const AltUp& alt_up, const TensorView& hidden, const TensorView& branch,
             const AltUpScratch& at) {
  const int64_t size = hidden.row_size();
  const int64_t n = num_streams(at);
  score(run, alt_up, stream(at.streams, 0, size), branch, at);
  apply(run, alt_up.predict, at.shares, at.scores);
  // One row per stream of each token.
  TensorView all = at.streams;
  all.shape = Shape{hidden.rows() * n, size};
  all.row_stride = size;
  for (int64_t i = 0; i < n; ++i) {
    run(ops::CombineRows{.out = stream(at.predicted, i, size),
                         .y = all,
                         .rows = at.row_indices,
                         .weights = column_slice(at.shares, i * n, (i + 1) * n),
                         .residual = stream(at.streams, i, size)});
  }
  copy(run, hidden, stream(at.predicted, 0, size), at);
}

void correct(const OpRunner& run, const AltUp& alt_up, const TensorView& hidden, const TensorView& branch,
             const AltUpScratch& at) {
  const int64_t size = hidden.row_size();
  score(run, alt_up, hidden, branch, at);
  const TensorView shares = column_slice(at.shares, 0, num_streams(at));
  apply(run, alt_up.correct, shares, at.scores);
  copy(run, branch, stream(at.predicted, 0, size), at);
  run(ops::ScaleSoftcap{.x = branch, .scale = -1.0F});
  run(ops::Add{.x = branch, .y = hidden});
  const auto rows = at.row_indices.first(static_cast<size_t>(hidden.rows()));
  for (int64_t i = 0; i < num_streams(at); ++i) {
    run(ops::CombineRows{.out = stream(at.streams, i, size),
                         .y = branch,
                         .rows = rows,
                         .weights = column_slice(shares, i, i + 1),
                         .residual = stream(at.predicted, i, size)});
  }
  const TensorView first = stream(at.streams, 0, size);
  if (alt_up.scale.size() == 0) return copy(run, hidden, first, at);
  run(ops::Gate{.out = hidden,
                .x = first,
                .gate = same_rows(alt_up.scale, hidden.rows(), size),
                .activation = Activation::kNone});
}

void add_to_others(const OpRunner& run, const TensorView& x, const AltUpScratch& at) {
  for (int64_t i = 1; i < num_streams(at); ++i)
    run(ops::Add{.x = stream(at.streams, i, x.row_size()), .y = x});
}

void apply(const OpRunner& run, const Laurel& laurel, const TensorView& hidden, const TensorView& x,
           const TensorView& branch, const AltUpScratch& at) {
  apply(run, laurel.down, at.narrow, x);
  apply(run, laurel.up, branch, at.narrow);
  apply(run, laurel.norm, branch, branch);
  run(ops::Add{.x = hidden, .y = x});
  run(ops::Add{.x = hidden, .y = branch});
}

void visit(const AltUpSpec& spec, ParamVisitor& visitor, AltUpEnds& ends) {
  const auto count = static_cast<size_t>(spec.streams - 1);
  ends.in.resize(count);
  ends.out.resize(count);
  visitor.for_each(Axis::kStreams, spec.streams - 1, [&](int64_t stream) {
    const auto i = static_cast<size_t>(stream);
    visit_matrix(visitor, "linear", replicated(alt_up::kProjection, spec.hidden, spec.hidden), ends.in[i]);
    visit_matrix(visitor, "linear", replicated(alt_up::kUnembedProjection, spec.hidden, spec.hidden),
                 ends.out[i]);
  });
}

void visit(const AltUpSpec& spec, const NormSpec& router_norm, ParamVisitor& visitor, AltUp& alt_up) {
  const int64_t streams = spec.streams;
  const auto visit_small = [&](ParamId id, int64_t out, int64_t in, Linear& result) {
    visit_matrix(visitor, "linear", replicated(id, out, in), result, Precision::kFloat32);
  };
  Norm& norm = alt_up.router_norm;
  norm = make_norm(router_norm, spec.hidden);
  // The router's input is divided by the hidden size (transformers: router_input_scale).
  visit_vector(visitor, {.id = alt_up::kRouterNorm, .out = spec.hidden, .fill = 1.0F - norm.weight_offset},
               norm.weight,
               each([hidden = static_cast<float>(spec.hidden)](float weight) { return weight / hidden; }));
  visit_small(alt_up::kModalityRouter, streams, spec.hidden, alt_up.router);
  visit_small(alt_up::kPredictionCoefs, streams * streams, streams, alt_up.predict);
  visit_small(alt_up::kCorrectionCoefs, streams, streams, alt_up.correct);
  visit_filled(visitor, streams, 1.0F, alt_up.correct.weight.bias);
  if (spec.scaled) visit_vector(visitor, replicated(alt_up::kCorrectOutputScale, spec.hidden), alt_up.scale);
}

void visit(const AltUpSpec& spec, const NormSpec& norm, ParamVisitor& visitor, Laurel& laurel) {
  visit_matrix(visitor, "linear", replicated(alt_up::kLaurelLeft, spec.rank, spec.hidden), laurel.down);
  visit_matrix(visitor, "linear", replicated(alt_up::kLaurelRight, spec.hidden, spec.rank), laurel.up);
  visit_norm(visitor, alt_up::kLaurelNorm, norm, spec.hidden, laurel.norm);
}

}  // namespace quire
