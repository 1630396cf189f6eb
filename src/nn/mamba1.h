// Mamba (arXiv 2312.00752): a causal convolution, then a selective state space model. Each channel has
// d_state state elements; dt, B and C are computed from the token.
#pragma once

#include <cstdint>
#include <optional>

#include "nn/mamba1_spec.h"
#include "nn/params.h"
#include "nn/recurrent.h"

namespace quire {

// Weights are read-only after load.
struct Mamba1 {
  Mamba1Sizes sizes;
  Linear in_proj;  // [2 inner, hidden]: x, z
  CausalConv conv;
  Linear x_proj;                // [rank + 2 state, inner]: dt, B, C
  std::optional<Norm> dt_norm;  // dt_layernorm
  std::optional<Norm> b_norm;   // b_layernorm
  std::optional<Norm> c_norm;   // c_layernorm
  Linear dt_proj;               // [inner, rank]
  Buffer A;                     // float32 [state, inner]: -exp(A_log)
  Buffer D;                     // float32 [inner]
  Linear out_proj;              // [hidden, inner]
};

// out = mamba(x) (+ residual).
void apply(const OpRunner& run, const Mamba1& mamba, const MixerArgs& args);

void visit(const Mamba1Spec& spec, const InputSpec& x, ParamVisitor& visitor, Mamba1& mamba);

}  // namespace quire
