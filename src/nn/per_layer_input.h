// Per-layer embeddings (PLE; Gemma 3n and 4): each layer has a small vector per token, the sum of a table
// lookup and a projection of the token's embedding. It multiplies a bottleneck after the MLP.
#pragma once

#include <cstdint>
#include <span>

#include "nn/layers.h"
#include "nn/params.h"
#include "nn/per_layer_input_spec.h"

namespace quire {

// The vectors of all layers at once. Weights are read-only after load.
struct PerLayerInputs {
  Embedding table;  // [vocab, num_layers size]
  Linear project;   // [num_layers size, hidden]
  Norm norm;        // [size]
  int64_t size = 0;
  float table_scale = 1.0F;
  float project_scale = 1.0F;
};
// inputs [rows, num_layers * 2 size]: for each layer space for its gate, then its vector. scratch: [rows,
// num_layers size].
void apply(const OpRunner& run, const PerLayerInputs& all, const TensorView& inputs, const TensorView& hidden,
           std::span<const int32_t> ids, const TensorView& scratch);

// The bottleneck of one layer: norm(project(act(gate(x)) * vector)).
struct PerLayerInput {
  Linear gate;     // [size, hidden]
  Linear project;  // [hidden, size]
  Norm norm;       // [hidden]
  Activation activation = Activation::kGeluTanh;
};
// input [rows, 2 size]: the layer's part of the inputs. out, x [rows, hidden]. scratch: act [rows, size].
void apply(const OpRunner& run, const PerLayerInput& layer, const TensorView& out, const TensorView& x,
           const TensorView& input, const TensorView& act);

void visit(const PerLayerInputSpec& spec, int64_t num_layers, int64_t hidden_size, const NormSpec& norm,
           ParamVisitor& visitor, PerLayerInputs& inputs);
void visit(const PerLayerInputSpec& spec, int64_t hidden_size, const NormSpec& norm, ParamVisitor& visitor,
           PerLayerInput& input);

}  // namespace quire
