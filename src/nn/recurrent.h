// The common part of recurrent layers, which keep a state of constant size per sequence: scratch memory, the
// causal convolution, and helpers that describe parameters.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/layers.h"
#include "nn/mixer.h"
#include "nn/params.h"
#include "nn/recurrent_spec.h"
#include "nn/scratch.h"

namespace quire {

struct RecurrentScratch {
  TensorView projected;  // [rows, projected]
  TensorView result;     // [rows, result]
  TensorView decay;      // [rows, decay_columns]
};
RecurrentScratch make_scratch(const RecurrentSizes& sizes, ScratchLayout& layout);
inline RecurrentScratch make_scratch(const RecurrentSizes& sizes, const MixerArgs& args) {
  ScratchLayout layout = args.layout();
  return make_scratch(sizes, layout);
}
template <class Weights>
requires requires(const Weights& weights) {
  weights.sizes.recurrent();
}
void count_scratch(const Weights& weights, ScratchLayout& layout) {
  make_scratch(weights.sizes.recurrent(), layout);
}

// A depthwise convolution over the last conv_kernel tokens. Weights are read-only after load.
struct CausalConv {
  Buffer weight;  // float32 [conv_kernel, channels]
  Buffer bias;    // float32 [channels] or empty
  int64_t conv_kernel = 1;
  int64_t channels = 0;
  Activation activation = Activation::kSilu;
};
// Convolves x [rows, channels] in place.
void apply(const OpRunner& run, const CausalConv& conv, const TensorView& x, const ForwardBatch& batch,
           const LayerState& state);

// The convolution of all `fused` channels, each stored as [channels, 1, kernel].
void visit_conv(ParamVisitor& visitor, std::vector<ParamSpec> fused, const RecurrentSizes& sizes,
                Activation activation, CausalConv& conv);
// A = -exp(A_log).
Buffer negative_exp(Buffer a_log);

}  // namespace quire
