// Mamba 2 (arXiv 2405.21060): a convolution over the last tokens, then for each head a matrix that fades and
// takes the token up; what it holds is read through the token's own vector.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/recurrent.h"

namespace quire {

struct MambaSizes {
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t groups = 1;  // of heads that share what writes and what reads
  int32_t state = 0;   // rows of a head's matrix
  int32_t taps = 4;

  int64_t inner() const { return int64_t{heads} * head_dim; }
  int64_t channels() const { return inner() + 2 * int64_t{groups} * state; }
  // Gates, the convolution's channels (x, what writes, what reads), steps.
  int64_t projected() const { return inner() + channels() + heads; }
  RecurrentSizes recurrent() const {
    return {channels(), taps, heads, int64_t{state} * head_dim, projected(), inner()};
  }
};

// Weights are read-only after load.
struct Mamba {
  MambaSizes sizes;
  Linear in;  // [projected, hidden]
  // What each part of the projection is multiplied with: gates, x, what writes, what reads, steps; or empty.
  std::vector<float> multipliers;
  CausalConv conv;
  Buffer step_bias;  // float32 [heads]
  Buffer rate;       // float32 [heads], negative
  Buffer skip;       // float32 [heads]
  float min_step = 0.0F;
  float max_step = 0.0F;
  std::optional<Norm> norm;  // of each group by itself; its weight [groups, inner / groups]
  bool norm_before_gate = false;
  Linear out;  // [hidden, inner]
};

// out = mamba(x) (+ residual, which may be out). out may be x.
void apply(const OpTable& ops, const OpContext& ctx, const Mamba& mamba, const TensorView& out,
           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const LayerState& state, const RecurrentScratch& scratch);

}  // namespace quire
