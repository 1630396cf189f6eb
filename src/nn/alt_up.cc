#include "nn/alt_up.h"

#include <numeric>

#include "nn/scratch.h"

namespace quire {
namespace {

constexpr float kLeastSquare = 1e-5F;  // of a stream that is made as large as the first

// Lays the scratch out from `memory` on; null: only counts. Returns its end.
int64_t place(const AltUpSizes& sizes, int64_t rows, float* memory, AltUpScratch& out) {
  ScratchLayout at(rows, memory);
  out.streams = at.matrix(sizes.streams * sizes.hidden);
  out.predicted = at.matrix(sizes.streams * sizes.hidden);
  out.scores = at.matrix(sizes.streams);
  out.shares = at.matrix(int64_t{sizes.streams} * sizes.streams);
  out.narrow = at.matrix(sizes.rank);
  const TensorView places = at.matrix(sizes.streams);
  if (memory != nullptr) {
    out.places = {reinterpret_cast<int32_t*>(places.as<float>()), static_cast<size_t>(rows * sizes.streams)};
    std::iota(out.places.begin(), out.places.end(), 0);
  }
  return at.size();
}

int64_t num_streams(const AltUpScratch& at) {
  return at.scores.row_size();
}
TensorView stream(const TensorView& all, int64_t index, int64_t hidden) {
  return column_slice(all, index * hidden, (index + 1) * hidden);
}
void copy(const OpTable& ops, const OpContext& ctx, const TensorView& out, const TensorView& x,
          const AltUpScratch& at) {
  ops.gather_rows(ctx, out, x, at.places.first(static_cast<size_t>(x.rows())));
}

// What x says of how the streams mix.
void score(const OpTable& ops, const OpContext& ctx, const AltUp& alt_up, const TensorView& x,
           const TensorView& branch, const AltUpScratch& at) {
  apply(ops, ctx, alt_up.router_norm, branch, x);
  apply(ops, ctx, alt_up.router, at.scores, branch);
  ops.scale_softcap(ctx, at.scores, 1.0F, 1.0F);  // tanh
}

}  // namespace

int64_t alt_up_scratch_size(const AltUpSizes& sizes, int64_t rows) {
  AltUpScratch unused;
  return place(sizes, rows, nullptr, unused);
}

AltUpScratch make_alt_up_scratch(const AltUpSizes& sizes, int64_t rows, float* memory) {
  AltUpScratch out;
  place(sizes, rows, memory, out);
  return out;
}

AltUpScratch part_of(const AltUpScratch& scratch, int64_t rows) {
  const auto part = [&](const TensorView& view) { return row_slice(view, 0, rows); };
  return {part(scratch.streams), part(scratch.predicted),
          part(scratch.scores),  part(scratch.shares),
          part(scratch.narrow),  scratch.places.first(static_cast<size_t>(rows * num_streams(scratch)))};
}

void begin_streams(const OpTable& ops, const OpContext& ctx, const AltUpEnds& ends, const TensorView& hidden,
                   const AltUpScratch& at) {
  const int64_t size = hidden.row_size();
  copy(ops, ctx, stream(at.streams, 0, size), hidden, at);
  for (size_t i = 0; i < ends.in.size(); ++i) {
    const TensorView other = stream(at.streams, static_cast<int64_t>(i) + 1, size);
    apply(ops, ctx, ends.in[i], other, hidden);
    ops.match_rms(ctx, other, hidden, kLeastSquare);
  }
}

void join_streams(const OpTable& ops, const OpContext& ctx, const AltUpEnds& ends, const TensorView& hidden,
                  const TensorView& branch, const AltUpScratch& at) {
  const int64_t size = hidden.row_size();
  const TensorView first = stream(at.streams, 0, size);
  copy(ops, ctx, hidden, first, at);
  for (size_t i = 0; i < ends.out.size(); ++i) {
    apply(ops, ctx, ends.out[i], branch, stream(at.streams, static_cast<int64_t>(i) + 1, size));
    ops.match_rms(ctx, branch, first, kLeastSquare);
    ops.add(ctx, hidden, branch);
  }
  ops.scale_softcap(ctx, hidden, 1.0F / static_cast<float>(num_streams(at)), 0.0F);
}

void predict(const OpTable& ops, const OpContext& ctx, const AltUp& alt_up, const TensorView& hidden,
             const TensorView& branch, const AltUpScratch& at) {
  const int64_t size = hidden.row_size();
  const int64_t n = num_streams(at);
  score(ops, ctx, alt_up, stream(at.streams, 0, size), branch, at);
  apply(ops, ctx, alt_up.predict, at.shares, at.scores);
  // Each stream of each row as a row of its own.
  TensorView all = at.streams;
  all.shape = Shape{hidden.rows() * n, size};
  all.row_stride = size;
  for (int64_t i = 0; i < n; ++i) {
    ops.combine_rows(ctx, stream(at.predicted, i, size), all, at.places,
                     column_slice(at.shares, i * n, (i + 1) * n), stream(at.streams, i, size));
  }
  copy(ops, ctx, hidden, stream(at.predicted, 0, size), at);
}

void correct(const OpTable& ops, const OpContext& ctx, const AltUp& alt_up, const TensorView& hidden,
             const TensorView& branch, const AltUpScratch& at) {
  const int64_t size = hidden.row_size();
  score(ops, ctx, alt_up, hidden, branch, at);
  const TensorView shares = column_slice(at.shares, 0, num_streams(at));
  apply(ops, ctx, alt_up.correct, shares, at.scores);
  copy(ops, ctx, branch, stream(at.predicted, 0, size), at);
  ops.scale_softcap(ctx, branch, -1.0F, 0.0F);
  ops.add(ctx, branch, hidden);
  const auto rows = at.places.first(static_cast<size_t>(hidden.rows()));
  for (int64_t i = 0; i < num_streams(at); ++i) {
    ops.combine_rows(ctx, stream(at.streams, i, size), branch, rows, column_slice(shares, i, i + 1),
                     stream(at.predicted, i, size));
  }
  const TensorView first = stream(at.streams, 0, size);
  if (alt_up.scale.size() == 0) return copy(ops, ctx, hidden, first, at);
  ops.gate(ctx, hidden, first, same_rows(alt_up.scale, hidden.rows(), size), Activation::kNone);
}

void add_to_others(const OpTable& ops, const OpContext& ctx, const TensorView& x, const AltUpScratch& at) {
  for (int64_t i = 1; i < num_streams(at); ++i) ops.add(ctx, stream(at.streams, i, x.row_size()), x);
}

void apply(const OpTable& ops, const OpContext& ctx, const Laurel& laurel, const TensorView& hidden,
           const TensorView& x, const TensorView& branch, const AltUpScratch& at) {
  apply(ops, ctx, laurel.down, at.narrow, x);
  apply(ops, ctx, laurel.up, branch, at.narrow);
  apply(ops, ctx, laurel.norm, branch, branch);
  ops.add(ctx, hidden, x);
  ops.add(ctx, hidden, branch);
}

}  // namespace quire
