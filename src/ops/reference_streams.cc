// The plain ops of several streams of hidden states: a few dozen numbers for each row, for all tables.
#include <algorithm>
#include <array>
#include <cmath>

#include "ops/parallel.h"
#include "ops/reference.h"

namespace quire::reference {
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
  for (int32_t round = 1; round < params.rounds; ++round) {
    divide_lines(mix, s, s, 1, params.eps);
    divide_lines(mix, s, 1, s, params.eps);
  }
}

}  // namespace

void stream_shares(const OpContext& ctx, const TensorView& in, const TensorView& out,
                   const TensorView& scores, const TensorView& base, const TensorView& scale,
                   const StreamParams& params) {
  const int64_t s = in.row_size();
  const auto* bases = base.as<float>();
  const auto* scales = scale.as<float>();
  const int64_t cost = s * s * (16 + 4 * params.rounds);
  parallel_ranges(ctx, in.rows(), row_grain(cost), [&](int64_t begin, int64_t end, int) {
    Mix mix;
    for (int64_t r = begin; r < end; ++r) {
      const float* own = scores.row<float>(r);
      for (int64_t i = 0; i < s; ++i)
        in.row<float>(r)[i] = sigmoid(own[i] * scales[0] + bases[i]) + params.eps;
      if (out.data == nullptr) continue;
      make_mix(mix, own + 2 * s, bases + 2 * s, scales[2], s, params);
      for (int64_t k = 0; k < s; ++k) {
        float* shares = out.row<float>(r) + k * (s + 1);
        for (int64_t j = 0; j < s; ++j) shares[j] = mix[static_cast<size_t>(j * s + k)];
        shares[s] = 2.0F * sigmoid(own[s + k] * scales[1] + bases[s + k]);
      }
    }
  });
}

}  // namespace quire::reference
