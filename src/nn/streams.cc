#include "nn/streams.h"

#include <numeric>

#include "nn/scratch.h"

namespace quire {
namespace {

// For each stream of each row, the rows that its mixture reads: the `s` streams of the row, whose first one
// is row `streams` of the memory, and then the output of the layer, of which row 0 is row `outputs`.
void fill_row_indices(std::span<int32_t> indices, int64_t s, int64_t streams, int64_t outputs) {
  const auto rows = static_cast<int64_t>(indices.size()) / (s * (s + 1));
  size_t next = 0;
  for (int64_t i = 0; i < rows * s; ++i) {
    const int64_t row = i / s;
    for (int64_t j = 0; j < s; ++j) indices[next++] = static_cast<int32_t>(streams + row * s + j);
    indices[next++] = static_cast<int32_t>(outputs + row);
  }
}

// `count` rows of contiguous memory as rows of another size.
TensorView as_rows(const TensorView& view, int64_t count, int64_t columns) {
  return make_view(view.data, DType::kF32, Shape{count, columns});
}

std::span<const int32_t> first_of(std::span<int32_t> all, int64_t count) {
  return all.first(static_cast<size_t>(count));
}

}  // namespace

StreamScratch make_scratch(const StreamSpec& spec, ScratchLayout& layout) {
  const int64_t s = spec.streams;
  const int64_t rows = layout.rows();
  StreamScratch out;
  const TensorView all = layout.matrix((2 * s + 1) * spec.hidden);
  out.streams = spec.streams;
  out.scores = layout.matrix(spec.scores());
  out.in = layout.matrix(s);
  out.out = layout.matrix(s * (s + 1));
  out.own = layout.constants(rows * s, [](std::span<int32_t> own) { std::iota(own.begin(), own.end(), 0); });
  out.repeated = layout.constants(rows * s, [&](std::span<int32_t> repeated) {
    for (size_t i = 0; i < repeated.size(); ++i) repeated[i] = static_cast<int32_t>(i) / spec.streams;
  });
  const int64_t num_indices = rows * s * (s + 1);
  out.of_first = layout.constants(
      num_indices, [&](std::span<int32_t> indices) { fill_row_indices(indices, s, 0, rows * s); });
  out.of_second = layout.constants(
      num_indices, [&](std::span<int32_t> indices) { fill_row_indices(indices, s, rows, 0); });
  if (all.data == nullptr) return out;
  const auto part = [&](int64_t first, int64_t count) {
    return make_view(all.as<float>() + first * spec.hidden, DType::kF32, Shape{count, spec.hidden});
  };
  out.first = part(0, rows * s);
  out.hidden = part(rows * s, rows);
  out.second = part(rows * (s + 1), rows * s);
  return out;
}

void begin_streams(const OpRunner& run, const StreamScratch& at, int64_t n) {
  run(ops::GatherRows{.out = row_slice(at.first, 0, n * at.streams),
                      .x = at.hidden,
                      .rows = first_of(at.repeated, n * at.streams)});
}

void hc_pre_mapping(const OpRunner& run, const HyperConnections& mix, const StreamScratch& at, bool second,
                    int64_t n) {
  const int64_t s = at.streams;
  const int64_t wide = s * at.hidden.row_size();
  const TensorView& streams = second ? at.second : at.first;
  const TensorView normed = as_rows(second ? at.first : at.second, n, wide);
  apply(run, mix.norm, normed, as_rows(streams, n, wide));
  const int64_t num_scores = mix.scores.out_features();
  const bool leaves = num_scores > s;
  const TensorView scores = part(at.scores, n, num_scores);
  apply(run, mix.scores, scores, normed);
  const TensorView in = row_slice(at.in, 0, n);
  run(ops::HyperConnection{.pre = in,
                           .post = leaves ? row_slice(at.out, 0, n) : TensorView{},
                           .scores = scores,
                           .base = vector_view(mix.base, num_scores),
                           .scale = vector_view(mix.scale, leaves ? 3 : 1),
                           .params = mix.params});
  run(ops::CombineRows{
      .out = row_slice(at.hidden, 0, n), .y = streams, .rows = first_of(at.own, n * s), .weights = in});
}

void hc_post_mapping(const OpRunner& run, const StreamScratch& at, bool second, int64_t n) {
  const int64_t s = at.streams;
  const int64_t rows = at.hidden.rows();
  // The streams and the mixture are contiguous.
  const TensorView from = as_rows(second ? at.hidden : at.first, rows * (s + 1), at.hidden.row_size());
  run(ops::CombineRows{.out = row_slice(second ? at.first : at.second, 0, n * s),
                       .y = from,
                       .rows = first_of(second ? at.of_second : at.of_first, n * s * (s + 1)),
                       .weights = as_rows(at.out, n * s, s + 1)});
}

void visit(const StreamSpec& spec, const HyperConnectionParams& params, float eps, ParamVisitor& visitor,
           HyperConnections& mix) {
  const int64_t all = spec.streams * spec.hidden;
  const int64_t scores = params.head ? spec.streams : spec.scores();
  visit_unit_norm(visitor, all, eps, mix.norm);
  visit_matrix(visitor, "linear", replicated(params.fn, scores, all), mix.scores, Precision::kFloat32);
  visit_vector(visitor, replicated(params.base, scores), mix.base);
  visit_vector(visitor, replicated(params.scale, params.head ? 1 : 3), mix.scale);
  mix.params = spec.params;
}

}  // namespace quire
