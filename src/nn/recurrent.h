// The common part of recurrent layers, which keep a state of constant size per sequence: scratch memory, the
// causal convolution, and helpers that describe parameters.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/mixer.h"
#include "nn/recurrent_spec.h"

namespace quire {

struct RecurrentScratch {
  RecurrentSizes sizes;
  ScratchLayout layout;
  TensorView projected = layout.matrix(sizes.projected);
  TensorView result = layout.matrix(sizes.result);
  TensorView decay = layout.matrix(sizes.decay_columns());
};

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

// A recurrent layer, with the weights that most of them have.
template <class Spec>
struct RecurrentMixer : Mixer {
  Spec spec;
  Linear in_proj;
  CausalConv conv;
  Linear out_proj;  // [hidden, result]

  explicit RecurrentMixer(const Spec& settings) : spec(settings) {}
  void count_scratch(ScratchLayout& layout) const override {
    layout = RecurrentScratch{spec.recurrent(), layout}.layout;
  }
};

// The parameters of these names, split over ranks in whole units of features, such as heads. x: the layer's
// input.
ParamSpec in_proj_spec(const InputSpec& x, int64_t out, int64_t unit = 1);
ParamSpec g_proj_spec(const InputSpec& x, int64_t out, int64_t unit);
void visit_out_proj(ParamVisitor& visitor, const InputSpec& x, int64_t in, int64_t unit, bool bias,
                    Linear& out_proj);
// The convolution of all `fused` channels, each stored as [channels, 1, kernel].
void visit_conv(ParamVisitor& visitor, std::vector<ParamSpec> fused, const RecurrentSizes& sizes,
                Activation activation, CausalConv& conv);
// Same, stored as one tensor.
void visit_conv(ParamVisitor& visitor, const RecurrentSizes& sizes, bool bias, Activation activation,
                CausalConv& conv);
void visit_dt_bias(ParamVisitor& visitor, int64_t count, int64_t unit, Buffer& dt_bias);
// A = -exp(A_log), stored as [rows, columns]. columns 0 = a vector.
void visit_A(ParamVisitor& visitor, int64_t rows, int64_t columns, const Transform& transform, Buffer& A);
void visit_D(ParamVisitor& visitor, int64_t count, Buffer& D);
// The norm before out_proj; unit 0 = not split. Reads the weights only.
void visit_recurrent_norm(ParamVisitor& visitor, int64_t count, int64_t unit, Norm& norm);

}  // namespace quire
