// Recurrent layers: causal convolutions, Mamba, delta rules, with a state per sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "ops/linear.h"
#include "ops/op.h"
#include "tensor/tensor.h"

namespace quire {

inline constexpr int64_t kMaxConvKernel = 8;  // kernel size of causal_conv
inline constexpr int64_t kScanPanel = 64;     // channels per part of the state of selective_scan

// The recurrent state of a layer: the last inputs of a convolution, the matrices of a recurrence. Every
// sequence has the same number of state blocks, in addition to those of its keys and values. A layer's state
// consists of parts, which are stored in some of these blocks.
struct StatePlace {
  int32_t block = 0;   // index among the sequence's state blocks
  int64_t offset = 0;  // bytes from the start of that block, a multiple of 64
};
struct StateView {
  std::byte* base = nullptr;               // block 0 of the pool
  int64_t block_stride = 0;                // bytes from one block to the next
  std::span<const StatePlace> parts = {};  // one per part
};
// The sequences of a step whose states advance. Built once per step, read by every recurrent layer. The state
// of a sequence whose first row is at position 0 starts from zeros, for any contents of the memory.
struct StateBatch {
  int32_t num_seqs = 0;
  std::span<const int32_t> cu_rows;    // [num_seqs + 1] row ranges, as AttentionBatch::cu_seqlens_q
  std::span<const int32_t> positions;  // [num_seqs] position of the first row
  std::span<const int32_t> blocks;     // [num_seqs, blocks_each] block ids
  int32_t blocks_each = 0;
};

// Part `part` of the state of sequence `seq`, float32.
inline float* state_part(const StateView& view, const StateBatch& batch, int64_t seq, int64_t part) {
  const StatePlace& place = view.parts[static_cast<size_t>(part)];
  const int64_t block = batch.blocks[static_cast<size_t>(seq * batch.blocks_each + place.block)];
  return reinterpret_cast<float*>(view.base + block * view.block_stride + place.offset);
}

// Limits of DecayGates.
struct DecayParams {
  float low = 0.0F;  // time_step_limit: bounds of dt
  float high = std::numeric_limits<float>::infinity();
  float bound = 0.0F;  // kda_lower_bound, negative: the least exponent of a decay; 0 = no bound
};

namespace ops {

// dt = clamp(softplus(dt + dt_bias), low, high), in place; decay = e^(A dt). With params.bound:
// dt = 1 / (1 + e^(A (dt + dt_bias))), decay = e^(bound dt).
struct DecayGates {
  static constexpr const char* kName = "forget_gates";
  TensorView decay;    // [rows, heads]
  TensorView dt;       // [rows, heads]
  TensorView dt_bias;  // [heads]
  TensorView A;        // [heads]: -exp(A_log)
  DecayParams params = {};
};
void check(const DecayGates& op);
OpCost cost(const DecayGates& op);
void run_reference(const OpContext& ctx, const DecayGates& op);

// Each column of x independently, in place: x[t] = activation(bias + sum over j of weight[j] * x[t -
// conv_kernel + 1
// + j]) over the rows of one sequence. The state has one part [conv_kernel - 1, d]: the last inputs, oldest
// first.
struct CausalConv {
  static constexpr const char* kName = "causal_conv";
  TensorView x;          // [rows, d]
  TensorView weight;     // [conv_kernel, d], conv_kernel is at most kMaxConvKernel
  TensorView bias = {};  // [d], or null data
  Activation activation = Activation::kSilu;
  const StateBatch& batch;
  StateView state;
};
void check(const CausalConv& op);
OpCost cost(const CausalConv& op);
void run_reference(const OpContext& ctx, const CausalConv& op);

// The recurrence of Mamba 2 (arXiv 2405.21060), token by token, for each head: S[n, p] = decay S[n, p] +
// B[n] dt x[p], then out[p] = D x[p] + sum over n of C[n] S[n, p]. Head h uses group h / (heads / groups).
// The state has a part [n, p] per head.
struct SsmScan {
  static constexpr const char* kName = "ssm_scan";
  TensorView out;    // [rows, heads, p]
  TensorView x;      // [rows, heads, p]
  TensorView B;      // [rows, groups, n]
  TensorView C;      // [rows, groups, n]
  TensorView decay;  // [rows, heads]; rows may share memory (row_stride 0)
  TensorView dt;     // [rows, heads]; rows may share memory
  TensorView D;      // [heads]
  const StateBatch& batch;
  StateView state;
};
void check(const SsmScan& op);
OpCost cost(const SsmScan& op);
void run_reference(const OpContext& ctx, const SsmScan& op);

// The recurrence of Mamba (arXiv 2312.00752), token by token, for each channel d, with t = softplus(dt[d]):
// S[n, d] = e^(A[n, d] t) S[n, d] + B[n] t x[d], then out[d] = D[d] x[d] + sum over n of C[n] S[n, d]. The
// state has a part [n, kScanPanel] per kScanPanel channels.
struct SelectiveScan {
  static constexpr const char* kName = "selective_scan";
  TensorView out;  // [rows, channels]
  TensorView x;    // [rows, channels]
  TensorView dt;   // [rows, channels], before softplus
  TensorView B;    // [rows, n]
  TensorView C;    // [rows, n]
  TensorView A;    // [n, channels]
  TensorView D;    // [channels]
  const StateBatch& batch;
  StateView state;
};
void check(const SelectiveScan& op);
OpCost cost(const SelectiveScan& op);
void run_reference(const OpContext& ctx, const SelectiveScan& op);

// The gated delta rule (arXiv 2412.06464), token by token, for each value head: the error term
// e[v] = beta (v[v] - decay sum over k of k[k] S[k, v]), then S[k, v] = decay S[k, v] + k[k] e[v], then
// out[v] = sum over k of q[k] S[k, v]. Head h uses key head h / (heads / key_heads). The state has a part
// [k, v] per head.
struct DeltaRule {
  static constexpr const char* kName = "delta_rule";
  TensorView out;    // [rows, heads, v]
  TensorView q;      // [rows, key_heads, k]
  TensorView k;      // [rows, key_heads, k]
  TensorView v;      // [rows, heads, v]
  TensorView decay;  // [rows, heads], or [rows, heads * k]: one per key dimension (arXiv 2510.26692)
  TensorView beta;   // [rows, heads]
  const StateBatch& batch;
  StateView state;
};
void check(const DeltaRule& op);
OpCost cost(const DeltaRule& op);
void run_reference(const OpContext& ctx, const DeltaRule& op);

using RecurrentOps = OpList<DecayGates, CausalConv, SsmScan, SelectiveScan, DeltaRule>;

}  // namespace ops
}  // namespace quire
