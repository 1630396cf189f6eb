// A gated convolution over the last few tokens (LFM2): no state but its inputs.
#pragma once

#include <cstdint>

#include "nn/recurrent.h"

namespace quire {

struct ShortConvSizes {
  int64_t channels = 0;
  int32_t taps = 3;

  RecurrentSizes recurrent() const { return {channels, taps, 0, 0, 3 * channels, channels}; }
};

// Weights are read-only after load.
struct ShortConv {
  ShortConvSizes sizes;
  Linear in;  // [3 channels, hidden]: gates before, gates behind, inputs
  CausalConv conv;
  Linear out;  // [hidden, channels]
};

// out = W_out(behind * conv(before * inputs)) (+ residual, which may be out). out may be x.
void apply(const OpTable& ops, const OpContext& ctx, const ShortConv& conv, const TensorView& out,
           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const LayerState& state, const RecurrentScratch& scratch);

}  // namespace quire
