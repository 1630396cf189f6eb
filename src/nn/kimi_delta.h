// Kimi delta attention (arXiv 2510.26692): a gated delta net (nn/delta_net.h) in whose matrices each key
// dimension fades by itself.
#pragma once

#include <cstdint>
#include <optional>

#include "nn/recurrent.h"

namespace quire {

struct KimiDeltaSizes {
  int32_t heads = 0;
  int32_t head_dim = 0;  // of queries, keys and values
  int32_t taps = 4;
  int32_t rank = 0;  // of the short vectors that gates and steps are made of; 0: of the hidden states

  int64_t inner() const { return int64_t{heads} * head_dim; }
  int64_t channels() const { return 3 * inner(); }
  // Of the hidden states at once: queries, keys, values, and gates and steps where there is no rank.
  int64_t wide() const { return (rank > 0 ? 3 : 5) * inner(); }
  // How much is taken up, and the short vectors.
  int64_t narrow() const { return heads + 2 * int64_t{rank}; }
  int64_t projected() const { return 5 * inner() + narrow(); }
  RecurrentSizes recurrent() const {
    return {channels(), taps, heads, int64_t{head_dim} * head_dim, projected(), inner(), inner()};
  }
};

// Weights are read-only after load.
struct KimiDelta {
  KimiDeltaSizes sizes;
  Linear wide;                 // [wide, hidden]
  Linear narrow;               // [narrow, hidden]: how much is taken up; short vectors of gates and of steps
  std::optional<Linear> gate;  // [inner, rank]
  std::optional<Linear> step;  // [inner, rank]
  CausalConv conv;
  Norm query_norm;     // to length 1 / sqrt(head_dim)
  Norm key_norm;       // to length 1
  Buffer step_bias;    // float32 [inner]
  Buffer rate;         // float32 [inner], negative
  float bound = 0.0F;  // DecayParams::bound
  Norm norm;           // [head_dim], of each head
  Linear out;          // [hidden, inner]
};

// out = kimi_delta(x) (+ residual, which may be out). out may be x.
void apply(const OpTable& ops, const OpContext& ctx, const KimiDelta& net, const TensorView& out,
           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const LayerState& state, const RecurrentScratch& scratch);

}  // namespace quire
