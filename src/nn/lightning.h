// Lightning attention (arXiv 2401.04658): linear attention. Each head has a [head_dim, head_dim] state that
// is multiplied by a constant decay at every token; the product of the token's key and value is added to it.
#pragma once

#include <cstdint>

#include "nn/lightning_spec.h"
#include "nn/params.h"
#include "nn/recurrent.h"

namespace quire {

// Weights are read-only after load.
struct Lightning {
  LightningSizes sizes;
  Linear in_proj;                             // [projected, hidden]
  Activation activation = Activation::kSilu;  // applied to q, k and v
  Buffer decay;                               // float32 [heads]: factor on the state per token
  Buffer dt;                                  // float32 [heads], ones: dt of SsmScan
  Buffer D;                                   // float32 [heads], zeros: D of SsmScan
  Norm norm;                                  // over all heads at once
  Linear out_proj;                            // [hidden, inner]
};

// The decay of a head's state per token, in layer `layer` of `layers`.
float lightning_decay(int32_t head, int32_t heads, int32_t layer, int32_t layers);

// out = lightning(x) (+ residual).
void apply(const OpRunner& run, const Lightning& lightning, const MixerArgs& args);

// The decays depend on x.layer.
void visit(const LightningSpec& spec, const InputSpec& x, ParamVisitor& visitor, Lightning& lightning);

}  // namespace quire
