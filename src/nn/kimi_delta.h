// Kimi delta attention (arXiv 2510.26692): a gated delta net (nn/delta_net.h) with one decay per key
// dimension instead of one per head.
#pragma once

#include <cstdint>
#include <optional>

#include "nn/kimi_delta_spec.h"
#include "nn/params.h"
#include "nn/recurrent.h"

namespace quire {

// Weights are read-only after load.
struct KimiDelta {
  KimiDeltaSizes sizes;
  Linear in_proj;                  // [wide, hidden]: q, k, v, and g and f if there is no rank
  Linear bgf_a_proj;               // [narrow, hidden]: beta, g_a_proj, f_a_proj
  std::optional<Linear> g_b_proj;  // [inner, rank]
  std::optional<Linear> f_b_proj;  // [inner, rank]
  CausalConv conv;
  Norm query_norm;           // scales to length 1 / sqrt(head_dim)
  Norm key_norm;             // scales to length 1
  Buffer dt_bias;            // float32 [inner]
  Buffer A;                  // float32 [inner]: -exp(A_log)
  float lower_bound = 0.0F;  // DecayParams::bound
  Norm norm;                 // [head_dim], over each head
  Linear out_proj;           // [hidden, inner]
};

// out = kimi_delta(x) (+ residual).
void apply(const OpRunner& run, const KimiDelta& net, const MixerArgs& args);

void visit(const KimiDeltaSpec& spec, const InputSpec& x, ParamVisitor& visitor, KimiDelta& net);

}  // namespace quire
