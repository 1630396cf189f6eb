// What layers that carry a state of fixed size along each sequence have in common: the sizes that decide
// about memory, scratch, and the convolution before the recurrence.
#pragma once

#include <cstdint>

#include "nn/layers.h"

namespace quire {

// Of one layer.
struct RecurrentSizes {
  int64_t channels = 0;    // of its convolution
  int32_t taps = 1;        // of each channel
  int32_t heads = 0;       // with a matrix each; 0: the convolution is all there is
  int64_t head_state = 0;  // floats of such a matrix
  int64_t projected = 0;   // columns that come in
  int64_t result = 0;      // columns that go out
  int64_t decays = 0;      // numbers that the matrices fade by, of a row; 0: one a head

  int64_t inputs() const { return (taps - 1) * channels; }  // floats of the convolution's last inputs
  int64_t decay_columns() const { return decays > 0 ? decays : heads; }
};

// Views of one piece of memory for so many rows, as wide as the widest layer needs.
struct RecurrentScratch {
  TensorView projected;  // [rows, projected]
  TensorView result;     // [rows, result]
  TensorView decay;      // [rows, decay_columns]
};
// Floats that the scratch takes. `widest`: of each size the largest of all layers'.
int64_t recurrent_scratch_size(const RecurrentSizes& widest, int64_t rows);
RecurrentScratch make_recurrent_scratch(const RecurrentSizes& widest, int64_t rows, float* memory);
// The part of it that a layer needs for so many rows.
RecurrentScratch part_of(const RecurrentScratch& scratch, const RecurrentSizes& sizes, int64_t rows);

// Each channel by itself over the last tokens. Weights are read-only after load.
struct CausalConv {
  Buffer weight;  // float32 [taps, channels]
  Buffer bias;    // float32 [channels] or empty
  int64_t taps = 1;
  int64_t channels = 0;
  Activation activation = Activation::kSilu;
};
// x [rows, channels], in place.
void apply(const OpTable& ops, const OpContext& ctx, const CausalConv& conv, const TensorView& x,
           const ForwardBatch& batch, const LayerState& state);

}  // namespace quire
