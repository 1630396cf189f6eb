// Ops of layers that carry states along a sequence, over the pool: a range is some heads, or some columns, of
// some sequences, which goes through all of the step's rows.
#include <algorithm>

#include "backends/cpu/drivers.h"
#include "ops/parallel.h"

namespace quire::cpu {
namespace {

// Columns of a convolution that one range takes at the least: whole lines of memory, some at a time.
constexpr int64_t kConvColumns = 128;

// f(sequence, part, its first row, rows) for all of them; a row of a part costs `row_cost` operations.
template <typename F>
void for_parts(const OpContext& ctx, const StateBatch& batch, int64_t parts, int64_t row_cost, F&& f) {
  const int64_t rows = batch.num_seqs == 0 ? 0 : batch.cu_rows[static_cast<size_t>(batch.num_seqs)];
  const int64_t mean = rows / std::max(1, batch.num_seqs);
  parallel_ranges(ctx, batch.num_seqs * parts, row_grain(row_cost * std::max<int64_t>(1, mean)),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) {
                      const auto seq = static_cast<size_t>(i / parts);
                      const int64_t first = batch.cu_rows[seq];
                      f(i / parts, i % parts, first, batch.cu_rows[seq + 1] - first);
                    }
                  });
}

// The state as the sequence's first row finds it.
float* begin_state(const StateBatch& batch, const StateView& view, int64_t seq, int64_t part, int64_t size) {
  float* state = state_part(view, batch, seq, part);
  if (batch.positions[static_cast<size_t>(seq)] == 0) std::fill_n(state, size, 0.0F);
  return state;
}

}  // namespace

void decay_gates(const CpuKernels& kernels, const OpContext& ctx, const TensorView& decay,
                 const TensorView& step, const TensorView& bias, const TensorView& rate,
                 const DecayParams& params) {
  const int64_t heads = step.row_size();
  parallel_ranges(ctx, step.rows(), row_grain(16 * heads), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      kernels.decay_gates(decay.row<float>(r), step.row<float>(r), bias.as<float>(), rate.as<float>(), heads,
                          params.low, params.high, params.bound);
  });
}

void causal_conv(const CpuKernels& kernels, const OpContext& ctx, const TensorView& x,
                 const TensorView& weight, const TensorView& bias, Activation act, const StateBatch& batch,
                 const StateView& view) {
  const int64_t d = x.row_size();
  const int64_t taps = weight.rows();
  const int64_t parts = (d + kConvColumns - 1) / kConvColumns;
  const auto run = [&](int64_t seq, int64_t part, int64_t first, int64_t rows) {
    const int64_t column = part * kConvColumns;
    const int64_t columns = std::min(kConvColumns, d - column);
    float* inputs = state_part(view, batch, seq, 0) + column;
    if (batch.positions[static_cast<size_t>(seq)] == 0) {
      for (int64_t j = 0; j + 1 < taps; ++j) std::fill_n(inputs + j * d, columns, 0.0F);
    }
    kernels.causal_conv({.x = x.row<float>(first) + column,
                         .x_stride = x.row_stride,
                         .rows = rows,
                         .columns = columns,
                         .weight = weight.as<float>() + column,
                         .weight_stride = weight.row_stride,
                         .bias = bias.data == nullptr ? nullptr : bias.as<float>() + column,
                         .inputs = inputs,
                         .inputs_stride = d,
                         .taps = taps});
    if (act == Activation::kNone) return;
    for (int64_t r = first; r < first + rows; ++r) {
      float* row = x.row<float>(r) + column;
      kernels.activate(row, row, nullptr, columns, act_of(act));
    }
  };
  for_parts(ctx, batch, parts, kConvColumns * (taps + 4), run);
}

void ssm_scan(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
              const TensorView& b, const TensorView& c, const TensorView& decay, const TensorView& step,
              const TensorView& skip, const StateBatch& batch, const StateView& view) {
  const int64_t heads = x.shape[1];
  const int64_t p = x.shape[2];
  const int64_t n = b.shape[2];
  const int64_t group = heads / b.shape[1];
  for_parts(ctx, batch, heads, n * p, [&](int64_t seq, int64_t h, int64_t first, int64_t rows) {
    kernels.ssm_scan({.out = out.row<float>(first) + h * p,
                      .out_stride = out.row_stride,
                      .x = x.row<float>(first) + h * p,
                      .x_stride = x.row_stride,
                      .b = b.row<float>(first) + h / group * n,
                      .b_stride = b.row_stride,
                      .c = c.row<float>(first) + h / group * n,
                      .c_stride = c.row_stride,
                      .decay = decay.row<float>(first) + h,
                      .decay_stride = decay.row_stride,
                      .step = step.row<float>(first) + h,
                      .step_stride = step.row_stride,
                      .skip = skip.as<float>()[h],
                      .state = begin_state(batch, view, seq, h, n * p),
                      .rows = rows,
                      .p = p,
                      .n = n});
  });
}

void delta_rule(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& q,
                const TensorView& k, const TensorView& v, const TensorView& decay, const TensorView& beta,
                const StateBatch& batch, const StateView& view) {
  const int64_t heads = v.shape[1];
  const int64_t v_dim = v.shape[2];
  const int64_t k_dim = k.shape[2];
  const int64_t group = heads / k.shape[1];
  const int64_t decays = decay.row_size() / heads;  // of a head
  for_parts(ctx, batch, heads, 2 * k_dim * v_dim, [&](int64_t seq, int64_t h, int64_t first, int64_t rows) {
    kernels.delta_rule({.out = out.row<float>(first) + h * v_dim,
                        .out_stride = out.row_stride,
                        .q = q.row<float>(first) + h / group * k_dim,
                        .q_stride = q.row_stride,
                        .k = k.row<float>(first) + h / group * k_dim,
                        .k_stride = k.row_stride,
                        .v = v.row<float>(first) + h * v_dim,
                        .v_stride = v.row_stride,
                        .decay = decay.row<float>(first) + h * decays,
                        .decay_stride = decay.row_stride,
                        .by_key = decays > 1,
                        .beta = beta.row<float>(first) + h,
                        .beta_stride = beta.row_stride,
                        .state = begin_state(batch, view, seq, h, k_dim * v_dim),
                        .rows = rows,
                        .k_dim = k_dim,
                        .v_dim = v_dim});
  });
}

}  // namespace quire::cpu
