// A gated short convolution (LFM2). Its only state is the last inputs of the convolution.
#pragma once

#include <cstdint>

#include "nn/params.h"
#include "nn/recurrent.h"
#include "nn/short_conv_spec.h"

namespace quire {

// Weights are read-only after load.
struct ShortConv {
  ShortConvSizes sizes;
  Linear in_proj;  // [3 channels, hidden]: B (gate of the input), C (gate of the output), x
  CausalConv conv;
  Linear out_proj;  // [hidden, channels]
};

// out = W_out(C * conv(B * x)) (+ residual).
void apply(const OpRunner& run, const ShortConv& conv, const MixerArgs& args);

void visit(const ShortConvSpec& spec, const InputSpec& x, ParamVisitor& visitor, ShortConv& conv);

}  // namespace quire
