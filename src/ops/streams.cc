// Shape check, cost and reference implementation of hyper-connections.
#include "ops/streams.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/parallel.h"
#include "ops/reference.h"
#include "ops/shape_check.h"

namespace quire {
namespace {

// mix [s, s], from stream to stream.
using Mix = std::array<float, kMaxStreams * kMaxStreams>;

float sigmoid(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}

// Divides each of `count` lines by its sum; elements of a line are `step` apart, lines begin `next` apart.
void divide_lines(Mix& mix, int64_t count, int64_t next, int64_t step, float eps) {
  for (int64_t line = 0; line < count; ++line) {
    float* x = mix.data() + line * next;
    float sum = 0.0F;
    for (int64_t i = 0; i < count; ++i) sum += x[i * step];
    for (int64_t i = 0; i < count; ++i) x[i * step] /= sum + eps;
  }
}

void make_mix(Mix& mix, const float* scores, const float* base, float scale, int64_t s,
              const StreamParams& params) {
  for (int64_t j = 0; j < s; ++j) {
    float* row = mix.data() + j * s;
    for (int64_t k = 0; k < s; ++k) row[k] = scores[j * s + k] * scale + base[j * s + k];
    const float highest = *std::max_element(row, row + s);
    float sum = 0.0F;
    for (int64_t k = 0; k < s; ++k) sum += row[k] = std::exp(row[k] - highest);
    for (int64_t k = 0; k < s; ++k) row[k] = row[k] / sum + params.eps;
  }
  divide_lines(mix, s, 1, s, params.eps);
  for (int32_t round = 1; round < params.sinkhorn_iters; ++round) {
    divide_lines(mix, s, s, 1, params.eps);
    divide_lines(mix, s, 1, s, params.eps);
  }
}

}  // namespace

namespace ops {

void check(const HyperConnection& op) {
  const ShapeCheck shapes(op.kName, {{"pre", &op.pre},
                                     {"post", &op.post},
                                     {"scores", &op.scores},
                                     {"base", &op.base},
                                     {"scale", &op.scale}});
  shapes.require_f32({&op.pre, &op.scores, &op.base, &op.scale});
  const bool mixes = op.post.data != nullptr;
  const int64_t s = op.pre.row_size();
  shapes.require(s >= 1 && s <= kMaxStreams && op.scores.row_size() == (mixes ? s * (s + 2) : s) &&
                     op.base.shape.numel() == op.scores.row_size() &&
                     op.scale.shape.numel() == (mixes ? 3 : 1),
                 "scores and base must have s (s + 2) columns and scale 3 elements, or s and 1 without post");
  shapes.require(op.scores.rows() == op.pre.rows() &&
                     (!mixes || (op.post.rows() == op.pre.rows() && op.post.row_size() == s * (s + 1))),
                 "scores must have pre's rows, and post must be [rows, s (s + 1)]");
}

OpCost cost(const HyperConnection& op) {
  return elementwise_cost("stream shares", op.scores, 2, 8.0 + 4.0 * op.params.sinkhorn_iters);
}

void run_reference(const OpContext& ctx, const HyperConnection& op) {
  const int64_t s = op.pre.row_size();
  const auto* bases = op.base.as<float>();
  const auto* scales = op.scale.as<float>();
  const int64_t cost = s * s * (16 + 4 * op.params.sinkhorn_iters);
  parallel_ranges(ctx, op.pre.rows(), row_grain(cost), [&](int64_t begin, int64_t end, int) {
    Mix mix;
    for (int64_t r = begin; r < end; ++r) {
      const float* own = op.scores.row<float>(r);
      for (int64_t i = 0; i < s; ++i)
        op.pre.row<float>(r)[i] = sigmoid(own[i] * scales[0] + bases[i]) + op.params.eps;
      if (op.post.data == nullptr) continue;
      make_mix(mix, own + 2 * s, bases + 2 * s, scales[2], s, op.params);
      for (int64_t k = 0; k < s; ++k) {
        float* shares = op.post.row<float>(r) + k * (s + 1);
        for (int64_t j = 0; j < s; ++j) shares[j] = mix[static_cast<size_t>(j * s + k)];
        shares[s] = 2.0F * sigmoid(own[s + k] * scales[1] + bases[s + k]);
      }
    }
  });
}

}  // namespace ops
}  // namespace quire
