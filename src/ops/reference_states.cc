// The plain ops of layers that carry states along a sequence.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/parallel.h"
#include "ops/reference.h"
#include "ops/softplus.h"

namespace quire::reference {
namespace {

// f(sequence, part) for all of them, `cost` operations of elements each.
template <typename F>
void for_parts(const OpContext& ctx, const StateBatch& batch, int64_t parts, int64_t cost, F&& f) {
  parallel_ranges(ctx, batch.num_seqs * parts, row_grain(cost), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) f(i / parts, i % parts);
  });
}

struct Rows {
  int64_t begin;
  int64_t end;
};
Rows rows_of(const StateBatch& batch, int64_t seq) {
  const auto s = static_cast<size_t>(seq);
  return {batch.cu_rows[s], batch.cu_rows[s + 1]};
}

// The state as the sequence's first row finds it.
float* begin_state(const StateBatch& batch, const StateView& view, int64_t seq, int64_t part, int64_t size) {
  float* state = state_part(view, batch, seq, part);
  if (batch.positions[static_cast<size_t>(seq)] == 0) std::fill_n(state, size, 0.0F);
  return state;
}

}  // namespace

void gate(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& gate,
          Activation act) {
  const int64_t d = out.row_size();
  const int64_t wide = d / gate.row_size();  // columns of a gate
  parallel_ranges(ctx, out.rows(), row_grain(8 * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = 0; i < d; ++i)
        out.row<float>(r)[i] = activate(gate.row<float>(r)[i / wide], act) * x.row<float>(r)[i];
    }
  });
}

void decay_gates(const OpContext& ctx, const TensorView& decay, const TensorView& step,
                 const TensorView& bias, const TensorView& rate, const DecayParams& params) {
  const int64_t heads = step.row_size();
  parallel_ranges(ctx, step.rows(), row_grain(16 * heads), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t h = 0; h < heads; ++h) {
        const float x = step.row<float>(r)[h] + bias.as<float>()[h];
        const float by = rate.as<float>()[h];
        const float limited = params.bound < 0.0F ? 1.0F / (1.0F + std::exp(by * x))
                                                  : std::min(params.high, std::max(params.low, softplus(x)));
        step.row<float>(r)[h] = limited;
        decay.row<float>(r)[h] = std::exp((params.bound < 0.0F ? params.bound : by) * limited);
      }
    }
  });
}

void causal_conv(const OpContext& ctx, const TensorView& x, const TensorView& weight, const TensorView& bias,
                 Activation act, const StateBatch& batch, const StateView& view) {
  const int64_t taps = weight.rows();
  const int64_t d = x.row_size();
  for_parts(ctx, batch, d, x.rows() * taps, [&](int64_t seq, int64_t column) {
    // The last inputs, oldest first.
    float* state = state_part(view, batch, seq, 0) + column;
    const bool fresh = batch.positions[static_cast<size_t>(seq)] == 0;
    for (int64_t j = 0; fresh && j + 1 < taps; ++j) state[j * d] = 0.0F;
    const Rows rows = rows_of(batch, seq);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float input = x.row<float>(r)[column];
      float sum = bias.data == nullptr ? 0.0F : bias.as<float>()[column];
      for (int64_t j = 0; j + 1 < taps; ++j) sum += weight.row<float>(j)[column] * state[j * d];
      sum += weight.row<float>(taps - 1)[column] * input;
      x.row<float>(r)[column] = activate(sum, act);
      for (int64_t j = 0; j + 2 < taps; ++j) state[j * d] = state[(j + 1) * d];
      if (taps > 1) state[(taps - 2) * d] = input;
    }
  });
}

void ssm_scan(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& b,
              const TensorView& c, const TensorView& decay, const TensorView& step, const TensorView& skip,
              const StateBatch& batch, const StateView& view) {
  const int64_t heads = x.shape[1];
  const int64_t p = x.shape[2];
  const int64_t n = b.shape[2];
  const int64_t group = heads / b.shape[1];
  for_parts(ctx, batch, heads, n * p * 4, [&](int64_t seq, int64_t h) {
    float* state = begin_state(batch, view, seq, h, n * p);
    const Rows rows = rows_of(batch, seq);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* in = x.row<float>(r) + h * p;
      const float* bs = b.row<float>(r) + h / group * n;
      const float* cs = c.row<float>(r) + h / group * n;
      float* result = out.row<float>(r) + h * p;
      const float by = decay.row<float>(r)[h];
      const float dt = step.row<float>(r)[h];
      for (int64_t i = 0; i < p; ++i) {
        float sum = skip.as<float>()[h] * in[i];
        for (int64_t j = 0; j < n; ++j) {
          float& s = state[j * p + i];
          s = s * by + bs[j] * (dt * in[i]);
          sum += cs[j] * s;
        }
        result[i] = sum;
      }
    }
  });
}

void selective_scan(const OpContext& ctx, const TensorView& out, const TensorView& x, const TensorView& step,
                    const TensorView& b, const TensorView& c, const TensorView& rate, const TensorView& skip,
                    const StateBatch& batch, const StateView& view) {
  const int64_t channels = x.row_size();
  const int64_t n = b.row_size();
  const int64_t panels = (channels + kScanPanel - 1) / kScanPanel;
  for_parts(ctx, batch, panels, n * kScanPanel * 8, [&](int64_t seq, int64_t panel) {
    float* state = begin_state(batch, view, seq, panel, n * kScanPanel);
    const int64_t first = panel * kScanPanel;
    const int64_t count = std::min(kScanPanel, channels - first);
    const Rows rows = rows_of(batch, seq);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* in = x.row<float>(r) + first;
      const float* steps = step.row<float>(r) + first;
      float* result = out.row<float>(r) + first;
      for (int64_t i = 0; i < count; ++i) {
        const float dt = softplus(steps[i]);
        const float taken = dt * in[i];
        float sum = skip.as<float>()[first + i] * in[i];
        for (int64_t j = 0; j < n; ++j) {
          float& s = state[j * kScanPanel + i];
          s = s * std::exp(rate.row<float>(j)[first + i] * dt) + b.row<float>(r)[j] * taken;
          sum += c.row<float>(r)[j] * s;
        }
        result[i] = sum;
      }
    }
  });
}

void delta_rule(const OpContext& ctx, const TensorView& out, const TensorView& q, const TensorView& k,
                const TensorView& v, const TensorView& decay, const TensorView& beta, const StateBatch& batch,
                const StateView& view) {
  const int64_t heads = v.shape[1];
  const int64_t v_dim = v.shape[2];
  const int64_t k_dim = k.shape[2];
  const int64_t group = heads / k.shape[1];
  const int64_t decays = decay.row_size() / heads;  // of a head
  for_parts(ctx, batch, heads, k_dim * v_dim * 6, [&](int64_t seq, int64_t h) {
    float* state = begin_state(batch, view, seq, h, k_dim * v_dim);
    const Rows rows = rows_of(batch, seq);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* query = q.row<float>(r) + h / group * k_dim;
      const float* key = k.row<float>(r) + h / group * k_dim;
      const float* value = v.row<float>(r) + h * v_dim;
      float* result = out.row<float>(r) + h * v_dim;
      const float* by = decay.row<float>(r) + h * decays;
      const int64_t next = decays > 1 ? 1 : 0;  // from one k's to the next one's
      for (int64_t i = 0; i < v_dim; ++i) {
        float known = 0.0F;
        for (int64_t j = 0; j < k_dim; ++j) known += key[j] * (by[j * next] * state[j * v_dim + i]);
        const float news = beta.row<float>(r)[h] * (value[i] - known);
        float sum = 0.0F;
        for (int64_t j = 0; j < k_dim; ++j) {
          float& s = state[j * v_dim + i];
          s = s * by[j * next] + key[j] * news;
          sum += query[j] * s;
        }
        result[i] = sum;
      }
    }
  });
}

namespace {

// One channel of a window that is not complete: the softmax so far. Zeros: nothing yet.
struct Compressed {
  float* highest;
  float* sum;
  float* weighted;

  Compressed(float* state, int64_t channels, int64_t channel)
      : highest(state + channel), sum(highest + channels), weighted(sum + channels) {}
  void add(float gate, float value) const {
    const float top = *sum == 0.0F ? gate : std::max(*highest, gate);
    const float kept = *sum == 0.0F ? 0.0F : std::exp(*highest - top);
    const float weight = std::exp(gate - top);
    *sum = *sum * kept + weight;
    *weighted = *weighted * kept + weight * value;
    *highest = top;
  }
  void take(const Compressed& other) const {
    *highest = *other.highest;
    *sum = *other.sum;
    *weighted = *other.weighted;
  }
  void clear() const { *highest = *sum = *weighted = 0.0F; }
};

}  // namespace

void compress(const OpContext& ctx, const TensorView& out, const TensorView& values, const TensorView& gates,
              const TensorView& bias, const StateBatch& batch, const StateView& view) {
  const int64_t d = out.row_size();
  const int64_t tokens = bias.rows();
  const bool overlap = values.row_size() == 2 * d;
  const int64_t own = overlap ? d : 0;  // where the columns of a token's own window begin
  for_parts(ctx, batch, d, 16 * out.rows(), [&](int64_t seq, int64_t channel) {
    float* state = state_part(view, batch, seq, 0);
    const Compressed window(state, d, channel);
    const Compressed next(state + compress_state(d, false), d, channel);
    int64_t position = batch.positions[static_cast<size_t>(seq)];
    if (position == 0) {
      window.clear();
      if (overlap) next.clear();
    }
    const auto add = [&](const Compressed& to, int64_t row, int64_t column) {
      to.add(gates.row<float>(row)[column] + bias.row<float>(position % tokens)[column],
             values.row<float>(row)[column]);
    };
    const Rows rows = rows_of(batch, seq);
    for (int64_t r = rows.begin; r < rows.end; ++r, ++position) {
      add(window, r, own + channel);
      if (overlap) add(next, r, channel);
      float& result = out.row<float>(r)[channel];
      result = 0.0F;
      if ((position + 1) % tokens != 0) continue;
      result = *window.weighted / *window.sum;
      window.clear();
      if (!overlap) continue;
      window.take(next);
      next.clear();
    }
  });
}

}  // namespace quire::reference
