// Gated delta nets (arXiv 2412.06464): each head has a [key_dim, value_dim] state that decays at every token
// and is updated by the delta rule.
#pragma once

#include <cstdint>

#include "nn/delta_net_spec.h"
#include "nn/params.h"
#include "nn/recurrent.h"

namespace quire {

// Weights are read-only after load.
struct DeltaNet {
  DeltaNetSizes sizes;
  Linear in_proj;           // [channels + values, hidden]: q, k, v, output gate z
  Linear ba_proj;           // [2 value_heads, hidden]: beta, decay a
  float beta_scale = 1.0F;  // factor on beta; above 1 the state transition may have negative eigenvalues
  CausalConv conv;
  Norm query_norm;  // scales to length 1 / sqrt(key_dim)
  Norm key_norm;    // scales to length 1
  Buffer dt_bias;   // float32 [value_heads]
  Buffer A;         // float32 [value_heads]: -exp(A_log)
  Norm norm;        // [value_dim], over each head
  Linear out_proj;  // [hidden, values]
};

// The norm that scales vectors of `size` elements to the given length.
Norm length_norm(int64_t size, float length);

// out = delta_net(x) (+ residual).
void apply(const OpRunner& run, const DeltaNet& net, const MixerArgs& args);

void visit(const DeltaNetSpec& spec, const InputSpec& x, ParamVisitor& visitor, DeltaNet& net);

}  // namespace quire
