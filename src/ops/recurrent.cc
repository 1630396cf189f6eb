// Shape checks, costs and reference implementations of the ops of recurrent layers.
#include "ops/recurrent.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/parallel.h"
#include "ops/reference.h"
#include "ops/shape_check.h"
#include "ops/softplus.h"
#include "ops/state_check.h"

namespace quire {
namespace {

// f(sequence, part) for every part of every sequence, at `cost` operations each.
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

// The state before the sequence's first row.
float* begin_state(const StateBatch& batch, const StateView& view, int64_t seq, int64_t part, int64_t size) {
  float* state = state_part(view, batch, seq, part);
  if (batch.positions[static_cast<size_t>(seq)] == 0) std::fill_n(state, size, 0.0F);
  return state;
}

}  // namespace

namespace ops {

void check(const DecayGates& op) {
  const ShapeCheck shapes(op.kName,
                          {{"decay", &op.decay}, {"dt", &op.dt}, {"dt_bias", &op.dt_bias}, {"A", &op.A}});
  shapes.require_f32({&op.decay, &op.dt, &op.dt_bias, &op.A});
  shapes.require(op.decay.rows() == op.dt.rows() && op.decay.row_size() == op.dt.row_size(),
                 "decay must have dt's shape");
  shapes.require(op.dt_bias.shape.numel() == op.dt.row_size() && op.A.shape.numel() == op.dt.row_size(),
                 "dt_bias and A must have dt's columns");
}

OpCost cost(const DecayGates& op) {
  return elementwise_cost("decay gates", op.dt, 3, 32);
}

void run_reference(const OpContext& ctx, const DecayGates& op) {
  const int64_t heads = op.dt.row_size();
  parallel_ranges(ctx, op.dt.rows(), row_grain(16 * heads), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t h = 0; h < heads; ++h) {
        const float x = op.dt.row<float>(r)[h] + op.dt_bias.as<float>()[h];
        const float by = op.A.as<float>()[h];
        const float limited = op.params.bound < 0.0F
                                  ? 1.0F / (1.0F + std::exp(by * x))
                                  : std::min(op.params.high, std::max(op.params.low, softplus(x)));
        op.dt.row<float>(r)[h] = limited;
        op.decay.row<float>(r)[h] = std::exp((op.params.bound < 0.0F ? op.params.bound : by) * limited);
      }
    }
  });
}

void check(const CausalConv& op) {
  const ShapeCheck shapes(op.kName, {{"x", &op.x}, {"weight", &op.weight}, {"bias", &op.bias}});
  shapes.require_f32({&op.x, &op.weight});
  shapes.require(
      op.weight.row_size() == op.x.row_size() && op.weight.rows() >= 1 && op.weight.rows() <= kMaxConvKernel,
      "weight must be [1 to 8 conv_kernel, columns of x]");
  shapes.require(op.bias.data == nullptr || op.bias.shape.numel() == op.x.row_size(),
                 "bias must have x's columns");
  require_states(shapes, op.batch, op.state, op.x.rows(), 1);
}

OpCost cost(const CausalConv& op) {
  OpCost cost = elementwise_cost("convolution", op.x, 2, 2 * static_cast<double>(op.weight.rows()) + 8);
  cost.bytes += state_bytes(op.batch, op.weight.shape.numel());
  return cost;
}

void run_reference(const OpContext& ctx, const CausalConv& op) {
  const int64_t conv_kernel = op.weight.rows();
  const int64_t d = op.x.row_size();
  for_parts(ctx, op.batch, d, op.x.rows() * conv_kernel, [&](int64_t seq, int64_t column) {
    // The last inputs, oldest first.
    float* state = state_part(op.state, op.batch, seq, 0) + column;
    const bool fresh = op.batch.positions[static_cast<size_t>(seq)] == 0;
    for (int64_t j = 0; fresh && j + 1 < conv_kernel; ++j) state[j * d] = 0.0F;
    const Rows rows = rows_of(op.batch, seq);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float input = op.x.row<float>(r)[column];
      float sum = op.bias.data == nullptr ? 0.0F : op.bias.as<float>()[column];
      for (int64_t j = 0; j + 1 < conv_kernel; ++j) sum += op.weight.row<float>(j)[column] * state[j * d];
      sum += op.weight.row<float>(conv_kernel - 1)[column] * input;
      op.x.row<float>(r)[column] = reference::activate(sum, op.activation);
      for (int64_t j = 0; j + 2 < conv_kernel; ++j) state[j * d] = state[(j + 1) * d];
      if (conv_kernel > 1) state[(conv_kernel - 2) * d] = input;
    }
  });
}

void check(const SsmScan& op) {
  const ShapeCheck shapes(op.kName, {{"out", &op.out},
                                     {"x", &op.x},
                                     {"B", &op.B},
                                     {"C", &op.C},
                                     {"decay", &op.decay},
                                     {"dt", &op.dt},
                                     {"D", &op.D}});
  shapes.require_f32({&op.out, &op.x, &op.B, &op.C, &op.decay, &op.dt, &op.D}, {&op.decay, &op.dt});
  shapes.require(op.x.shape.rank() == 3 && op.out.shape == op.x.shape, "x and out must be [rows, heads, p]");
  shapes.require(op.B.shape.rank() == 3 && op.C.shape == op.B.shape && op.B.rows() == op.x.rows() &&
                     op.B.shape[1] > 0 && op.x.shape[1] % op.B.shape[1] == 0,
                 "B and C must be [rows, groups, n], with groups that divide the heads");
  shapes.require(op.decay.rows() == op.x.rows() && op.decay.row_size() == op.x.shape[1] &&
                     op.dt.shape == op.decay.shape && op.D.shape.numel() == op.x.shape[1],
                 "decay and dt must be [rows, heads], D [heads]");
  require_states(shapes, op.batch, op.state, op.x.rows(), op.x.shape[1]);
}

OpCost cost(const SsmScan& op) {
  const int64_t n = op.B.shape[2];
  OpCost cost = elementwise_cost("state space scan", op.x, 2, 5 * static_cast<double>(n));
  cost.bytes += state_bytes(op.batch, op.x.row_size() * n);
  return cost;
}

void run_reference(const OpContext& ctx, const SsmScan& op) {
  const int64_t heads = op.x.shape[1];
  const int64_t p = op.x.shape[2];
  const int64_t n = op.B.shape[2];
  const int64_t group = heads / op.B.shape[1];
  for_parts(ctx, op.batch, heads, n * p * 4, [&](int64_t seq, int64_t h) {
    float* state = begin_state(op.batch, op.state, seq, h, n * p);
    const Rows rows = rows_of(op.batch, seq);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* in = op.x.row<float>(r) + h * p;
      const float* bs = op.B.row<float>(r) + h / group * n;
      const float* cs = op.C.row<float>(r) + h / group * n;
      float* result = op.out.row<float>(r) + h * p;
      const float by = op.decay.row<float>(r)[h];
      const float dt = op.dt.row<float>(r)[h];
      for (int64_t i = 0; i < p; ++i) {
        float sum = op.D.as<float>()[h] * in[i];
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

void check(const SelectiveScan& op) {
  const ShapeCheck shapes(op.kName, {{"out", &op.out},
                                     {"x", &op.x},
                                     {"dt", &op.dt},
                                     {"B", &op.B},
                                     {"C", &op.C},
                                     {"A", &op.A},
                                     {"D", &op.D}});
  shapes.require_f32({&op.out, &op.x, &op.dt, &op.B, &op.C, &op.A, &op.D});
  shapes.require(op.x.shape.rank() == 2 && op.out.shape == op.x.shape && op.dt.shape == op.x.shape,
                 "x, dt and out must be [rows, channels]");
  shapes.require(op.B.shape.rank() == 2 && op.C.shape == op.B.shape && op.B.rows() == op.x.rows(),
                 "B and C must be [rows, n]");
  shapes.require(op.A.rows() == op.B.row_size() && op.A.row_size() == op.x.row_size() &&
                     op.D.shape.numel() == op.x.row_size(),
                 "A must be [n, channels], D [channels]");
  require_states(shapes, op.batch, op.state, op.x.rows(), (op.x.row_size() + kScanPanel - 1) / kScanPanel);
}

OpCost cost(const SelectiveScan& op) {
  OpCost cost = elementwise_cost("selective scan", op.x, 3, 16 * static_cast<double>(op.B.row_size()));
  cost.bytes += state_bytes(op.batch, op.A.shape.numel());
  return cost;
}

void run_reference(const OpContext& ctx, const SelectiveScan& op) {
  const int64_t channels = op.x.row_size();
  const int64_t n = op.B.row_size();
  const int64_t panels = (channels + kScanPanel - 1) / kScanPanel;
  for_parts(ctx, op.batch, panels, n * kScanPanel * 8, [&](int64_t seq, int64_t panel) {
    float* state = begin_state(op.batch, op.state, seq, panel, n * kScanPanel);
    const int64_t first = panel * kScanPanel;
    const int64_t count = std::min(kScanPanel, channels - first);
    const Rows rows = rows_of(op.batch, seq);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* in = op.x.row<float>(r) + first;
      const float* steps = op.dt.row<float>(r) + first;
      float* result = op.out.row<float>(r) + first;
      for (int64_t i = 0; i < count; ++i) {
        const float dt = softplus(steps[i]);
        const float input = dt * in[i];
        float sum = op.D.as<float>()[first + i] * in[i];
        for (int64_t j = 0; j < n; ++j) {
          float& s = state[j * kScanPanel + i];
          s = s * std::exp(op.A.row<float>(j)[first + i] * dt) + op.B.row<float>(r)[j] * input;
          sum += op.C.row<float>(r)[j] * s;
        }
        result[i] = sum;
      }
    }
  });
}

void check(const DeltaRule& op) {
  const ShapeCheck shapes(
      op.kName,
      {{"out", &op.out}, {"q", &op.q}, {"k", &op.k}, {"v", &op.v}, {"decay", &op.decay}, {"beta", &op.beta}});
  shapes.require_f32({&op.out, &op.q, &op.k, &op.v, &op.decay, &op.beta});
  shapes.require(op.v.shape.rank() == 3 && op.out.shape == op.v.shape, "v and out must be [rows, heads, v]");
  shapes.require(op.q.shape.rank() == 3 && op.k.shape == op.q.shape && op.k.rows() == op.v.rows() &&
                     op.k.shape[1] > 0 && op.v.shape[1] % op.k.shape[1] == 0,
                 "q and k must be [rows, key_heads, k], with key_heads that divide the heads");
  shapes.require(
      op.beta.rows() == op.v.rows() && op.beta.row_size() == op.v.shape[1] &&
          op.decay.rows() == op.v.rows() &&
          (op.decay.row_size() == op.v.shape[1] || op.decay.row_size() == op.v.shape[1] * op.k.shape[2]),
      "beta must be [rows, heads], decay [rows, heads] or [rows, heads * k]");
  require_states(shapes, op.batch, op.state, op.v.rows(), op.v.shape[1]);
}

OpCost cost(const DeltaRule& op) {
  const int64_t k_dim = op.k.shape[2];
  OpCost cost = elementwise_cost("delta rule", op.v, 2, 7 * static_cast<double>(k_dim));
  cost.bytes += state_bytes(op.batch, op.v.row_size() * k_dim);
  return cost;
}

void run_reference(const OpContext& ctx, const DeltaRule& op) {
  const int64_t heads = op.v.shape[1];
  const int64_t v_dim = op.v.shape[2];
  const int64_t k_dim = op.k.shape[2];
  const int64_t group = heads / op.k.shape[1];
  const int64_t decays = op.decay.row_size() / heads;  // per head
  for_parts(ctx, op.batch, heads, k_dim * v_dim * 6, [&](int64_t seq, int64_t h) {
    float* state = begin_state(op.batch, op.state, seq, h, k_dim * v_dim);
    const Rows rows = rows_of(op.batch, seq);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* query = op.q.row<float>(r) + h / group * k_dim;
      const float* key = op.k.row<float>(r) + h / group * k_dim;
      const float* value = op.v.row<float>(r) + h * v_dim;
      float* result = op.out.row<float>(r) + h * v_dim;
      const float* by = op.decay.row<float>(r) + h * decays;
      const int64_t next = decays > 1 ? 1 : 0;  // stride along the key dimensions
      for (int64_t i = 0; i < v_dim; ++i) {
        float prediction = 0.0F;
        for (int64_t j = 0; j < k_dim; ++j) prediction += key[j] * (by[j * next] * state[j * v_dim + i]);
        const float error = op.beta.row<float>(r)[h] * (value[i] - prediction);
        float sum = 0.0F;
        for (int64_t j = 0; j < k_dim; ++j) {
          float& s = state[j * v_dim + i];
          s = s * by[j * next] + key[j] * error;
          sum += query[j] * s;
        }
        result[i] = sum;
      }
    }
  });
}

}  // namespace ops
}  // namespace quire
