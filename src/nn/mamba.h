// Mamba 2 (arXiv 2405.21060): a causal convolution, then a state space model with one [d_state, head_dim]
// state and one decay per head.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/mamba_spec.h"
#include "nn/params.h"
#include "nn/recurrent.h"

namespace quire {

// Weights are read-only after load.
struct Mamba {
  MambaSizes sizes;
  Linear in_proj;  // [projected, hidden]
  // Factors on the parts of the projection: z, x, B, C, dt; or empty.
  std::vector<float> multipliers;
  CausalConv conv;
  Buffer dt_bias;  // float32 [heads]
  Buffer A;        // float32 [heads]: -exp(A_log)
  Buffer D;        // float32 [heads]
  float min_dt = 0.0F;
  float max_dt = 0.0F;
  std::optional<Norm> norm;  // over each group; the weight is [groups, inner / groups]
  bool norm_before_gate = false;
  Linear out_proj;  // [hidden, inner]
};

// out = mamba(x) (+ residual).
void apply(const OpRunner& run, const Mamba& mamba, const MixerArgs& args);

void visit(const MambaSpec& spec, const InputSpec& x, ParamVisitor& visitor, Mamba& mamba);

}  // namespace quire
