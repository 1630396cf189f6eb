// Ops of recurrent layers, on the thread pool. A range covers some heads, or some columns, of some sequences,
// for all rows of the step.
#include <algorithm>

#include "backends/cpu/drivers.h"
#include "ops/parallel.h"

namespace quire::cpu {
namespace {

// Columns of a convolution per range: a few full cache lines.
constexpr int64_t kConvColumns = 128;

// Calls f(sequence, part, first row, number of rows) for every part of every sequence; a row of a part costs
// row_cost operations.
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

// The state before the sequence's first row.
float* begin_state(const StateBatch& batch, const StateView& view, int64_t seq, int64_t part, int64_t size) {
  float* state = state_part(view, batch, seq, part);
  if (batch.positions[static_cast<size_t>(seq)] == 0) std::fill_n(state, size, 0.0F);
  return state;
}

}  // namespace

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::DecayGates& op) {
  const int64_t heads = op.dt.row_size();
  parallel_ranges(ctx, op.dt.rows(), row_grain(16 * heads), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      kernels.decay_gates(op.decay.row<float>(r), op.dt.row<float>(r), op.dt_bias.as<float>(),
                          op.A.as<float>(), heads, op.params.low, op.params.high, op.params.bound);
  });
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::CausalConv& op) {
  const int64_t d = op.x.row_size();
  const int64_t conv_kernel = op.weight.rows();
  const int64_t parts = (d + kConvColumns - 1) / kConvColumns;
  const auto run = [&](int64_t seq, int64_t part, int64_t first, int64_t rows) {
    const int64_t column = part * kConvColumns;
    const int64_t columns = std::min(kConvColumns, d - column);
    float* inputs = state_part(op.state, op.batch, seq, 0) + column;
    if (op.batch.positions[static_cast<size_t>(seq)] == 0) {
      for (int64_t j = 0; j + 1 < conv_kernel; ++j) std::fill_n(inputs + j * d, columns, 0.0F);
    }
    kernels.causal_conv({.x = op.x.row<float>(first) + column,
                         .x_stride = op.x.row_stride,
                         .rows = rows,
                         .columns = columns,
                         .weight = op.weight.as<float>() + column,
                         .weight_stride = op.weight.row_stride,
                         .bias = op.bias.data == nullptr ? nullptr : op.bias.as<float>() + column,
                         .inputs = inputs,
                         .inputs_stride = d,
                         .conv_kernel = conv_kernel});
    if (op.activation == Activation::kNone) return;
    for (int64_t r = first; r < first + rows; ++r) {
      float* row = op.x.row<float>(r) + column;
      kernels.activate(row, row, nullptr, columns, act_of(op.activation));
    }
  };
  for_parts(ctx, op.batch, parts, kConvColumns * (conv_kernel + 4), run);
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::SsmScan& op) {
  const int64_t heads = op.x.shape[1];
  const int64_t p = op.x.shape[2];
  const int64_t n = op.B.shape[2];
  const int64_t group = heads / op.B.shape[1];
  for_parts(ctx, op.batch, heads, n * p, [&](int64_t seq, int64_t h, int64_t first, int64_t rows) {
    kernels.ssm_scan({.out = op.out.row<float>(first) + h * p,
                      .out_stride = op.out.row_stride,
                      .x = op.x.row<float>(first) + h * p,
                      .x_stride = op.x.row_stride,
                      .b = op.B.row<float>(first) + h / group * n,
                      .b_stride = op.B.row_stride,
                      .c = op.C.row<float>(first) + h / group * n,
                      .c_stride = op.C.row_stride,
                      .decay = op.decay.row<float>(first) + h,
                      .decay_stride = op.decay.row_stride,
                      .dt = op.dt.row<float>(first) + h,
                      .dt_stride = op.dt.row_stride,
                      .d = op.D.as<float>()[h],
                      .state = begin_state(op.batch, op.state, seq, h, n * p),
                      .rows = rows,
                      .p = p,
                      .n = n});
  });
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::DeltaRule& op) {
  const int64_t heads = op.v.shape[1];
  const int64_t v_dim = op.v.shape[2];
  const int64_t k_dim = op.k.shape[2];
  const int64_t group = heads / op.k.shape[1];
  const int64_t decays = op.decay.row_size() / heads;  // per head
  for_parts(ctx, op.batch, heads, 2 * k_dim * v_dim,
            [&](int64_t seq, int64_t h, int64_t first, int64_t rows) {
              kernels.delta_rule({.out = op.out.row<float>(first) + h * v_dim,
                                  .out_stride = op.out.row_stride,
                                  .q = op.q.row<float>(first) + h / group * k_dim,
                                  .q_stride = op.q.row_stride,
                                  .k = op.k.row<float>(first) + h / group * k_dim,
                                  .k_stride = op.k.row_stride,
                                  .v = op.v.row<float>(first) + h * v_dim,
                                  .v_stride = op.v.row_stride,
                                  .decay = op.decay.row<float>(first) + h * decays,
                                  .decay_stride = op.decay.row_stride,
                                  .by_key = decays > 1,
                                  .beta = op.beta.row<float>(first) + h,
                                  .beta_stride = op.beta.row_stride,
                                  .state = begin_state(op.batch, op.state, seq, h, k_dim * v_dim),
                                  .rows = rows,
                                  .k_dim = k_dim,
                                  .v_dim = v_dim});
            });
}

}  // namespace quire::cpu
