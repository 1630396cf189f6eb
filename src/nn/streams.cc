#include "nn/streams.h"

#include <numeric>

#include "nn/scratch.h"

namespace quire {
namespace {

std::span<int32_t> numbers(const TensorView& view) {
  if (view.data == nullptr) return {};
  return {reinterpret_cast<int32_t*>(view.as<float>()), static_cast<size_t>(view.shape.numel())};
}

void fill_places(const StreamScratch& at, int64_t rows) {
  const int64_t s = at.streams;
  std::iota(at.own.begin(), at.own.end(), 0);
  int64_t next = 0;
  for (int64_t i = 0; i < rows * s; ++i) {
    const int64_t row = i / s;
    at.repeated[static_cast<size_t>(i)] = static_cast<int32_t>(row);
    for (int64_t j = 0; j < s; ++j, ++next) {
      at.of_first[static_cast<size_t>(next)] = static_cast<int32_t>(row * s + j);
      at.of_second[static_cast<size_t>(next)] = static_cast<int32_t>(rows + row * s + j);
    }
    at.of_first[static_cast<size_t>(next)] = static_cast<int32_t>(rows * s + row);
    at.of_second[static_cast<size_t>(next++)] = static_cast<int32_t>(row);
  }
}

// Lays the scratch out from `memory` on; null: only counts. Returns its end.
int64_t place(const StreamSizes& sizes, int64_t rows, float* memory, StreamScratch& out) {
  const int64_t s = sizes.streams;
  ScratchLayout at(rows, memory);
  const TensorView all = at.matrix((2 * s + 1) * sizes.hidden);
  out.streams = sizes.streams;
  out.scores = at.matrix(sizes.scores());
  out.in = at.matrix(s);
  out.out = at.matrix(s * (s + 1));
  out.own = numbers(at.matrix(s));
  out.repeated = numbers(at.matrix(s));
  out.of_first = numbers(at.matrix(s * (s + 1)));
  out.of_second = numbers(at.matrix(s * (s + 1)));
  if (memory == nullptr) return at.size();
  const auto part = [&](int64_t first, int64_t count) {
    return make_view(all.as<float>() + first * sizes.hidden, DType::kF32, Shape{count, sizes.hidden});
  };
  out.first = part(0, rows * s);
  out.hidden = part(rows * s, rows);
  out.second = part(rows * (s + 1), rows * s);
  fill_places(out, rows);
  return at.size();
}

// `count` rows of contiguous memory as rows of another size.
TensorView as_rows(const TensorView& view, int64_t count, int64_t columns) {
  return make_view(view.data, DType::kF32, Shape{count, columns});
}

std::span<const int32_t> first_of(std::span<int32_t> all, int64_t count) {
  return all.first(static_cast<size_t>(count));
}

}  // namespace

int64_t stream_scratch_size(const StreamSizes& sizes, int64_t rows) {
  StreamScratch unused;
  return place(sizes, rows, nullptr, unused);
}

StreamScratch make_stream_scratch(const StreamSizes& sizes, int64_t rows, float* memory) {
  StreamScratch out;
  place(sizes, rows, memory, out);
  return out;
}

void begin_streams(const OpTable& ops, const OpContext& ctx, const StreamScratch& at, int64_t n) {
  ops.gather_rows(ctx, row_slice(at.first, 0, n * at.streams), at.hidden,
                  first_of(at.repeated, n * at.streams));
}

void enter_streams(const OpTable& ops, const OpContext& ctx, const StreamMix& mix, const StreamScratch& at,
                   bool second, int64_t n) {
  const int64_t s = at.streams;
  const int64_t wide = s * at.hidden.row_size();
  const TensorView& streams = second ? at.second : at.first;
  const TensorView normed = as_rows(second ? at.first : at.second, n, wide);
  apply(ops, ctx, mix.norm, normed, as_rows(streams, n, wide));
  const int64_t num_scores = mix.scores.out_features();
  const bool leaves = num_scores > s;
  const TensorView scores = part(at.scores, n, num_scores);
  apply(ops, ctx, mix.scores, scores, normed);
  const TensorView in = row_slice(at.in, 0, n);
  ops.stream_shares(ctx, in, leaves ? row_slice(at.out, 0, n) : TensorView{}, scores,
                    vector_view(mix.base, num_scores), vector_view(mix.scale, leaves ? 3 : 1), mix.params);
  ops.combine_rows(ctx, row_slice(at.hidden, 0, n), streams, first_of(at.own, n * s), in, {});
}

void leave_streams(const OpTable& ops, const OpContext& ctx, const StreamScratch& at, bool second,
                   int64_t n) {
  const int64_t s = at.streams;
  const int64_t rows = at.hidden.rows();
  // The streams and the mixture lie side by side.
  const TensorView from = as_rows(second ? at.hidden : at.first, rows * (s + 1), at.hidden.row_size());
  ops.combine_rows(ctx, row_slice(second ? at.first : at.second, 0, n * s), from,
                   first_of(second ? at.of_second : at.of_first, n * s * (s + 1)),
                   as_rows(at.out, n * s, s + 1), {});
}

}  // namespace quire
