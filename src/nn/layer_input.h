// What a layer gets of each token besides the hidden states: a short vector, looked up for the token and
// projected from its embedding, that scales a bottleneck behind the MLP (Gemma 3n and 4).
#pragma once

#include <cstdint>
#include <span>

#include "nn/layers.h"

namespace quire {

// The vectors of all layers at once. Weights are read-only after load.
struct LayerInputs {
  Embedding table;  // [vocab, num_layers size]
  Linear project;   // [num_layers size, hidden]
  Norm norm;        // [size]
  int64_t size = 0;
  int64_t num_layers = 0;
  float table_scale = 1.0F;
  float project_scale = 1.0F;
};
// inputs [rows, num_layers * 2 size]: for each layer room for its gate, then its vector. scratch: [rows,
// num_layers size].
void apply(const OpTable& ops, const OpContext& ctx, const LayerInputs& all, const TensorView& inputs,
           const TensorView& hidden, std::span<const int32_t> ids, const TensorView& scratch);

// One layer's use of its vector: norm(project(act(gate(x)) * vector)).
struct LayerInput {
  Linear gate;     // [size, hidden]
  Linear project;  // [hidden, size]
  Norm norm;       // [hidden]
  Activation activation = Activation::kGeluTanh;
};
// input [rows, 2 size]: the layer's part of the inputs. out, x [rows, hidden]. scratch: act [rows, size].
void apply(const OpTable& ops, const OpContext& ctx, const LayerInput& layer, const TensorView& out,
           const TensorView& x, const TensorView& input, const TensorView& act);

}  // namespace quire
