// The matrices of a model by their names in its checkpoint, for tools that change weights. Load time only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/checkpoint.h"

namespace quire {

struct LinearModule {
  std::string name;     // "model.layers.0.mlp.up_proj"
  std::string weight;   // the tensor
  int32_t layer = -1;   // -1 = outside of the layers
  int32_t expert = -1;  // -1 = not a matrix of a single expert
  // Stored as one matrix [out, in], so that it may be quantized: not transposed, not stacked, and not split
  // while it is loaded.
  bool plain = false;
  // Small and sensitive to rounding, so that it stays floating point: routers, indexer weights, and
  // projections that set the decay of recurrent states.
  bool keep_float = false;
};

// Returns them in the order in which the model reads them, each tensor once. Throws Error if the tensors do
// not match the configuration.
std::vector<LinearModule> linear_modules(const Checkpoint& checkpoint);

// For each layer the module of its attention ("model.layers.0.self_attn"), where the scales of an 8-bit KV
// cache are stored. Empty if the layer has no KV cache of its own, or a latent one.
std::vector<std::string> attention_modules(const Checkpoint& checkpoint);

// Matrices whose inputs can be scaled channel by channel: their columns are multiplied by factors and the
// source of their inputs is divided by the same factors, so that the result of the model does not change.
struct ScalableInput {
  std::vector<std::string> matrices;  // weights [any, k]
  std::string source;  // the weights [k] of the preceding norm, or a matrix [k, any], which is scaled by row
  std::string source_bias;  // the bias of the norm; empty = none
  bool norm = false;
  float offset = 0.0F;  // added to the norm's weights (NormSpec::weight_offset)
};
// Returns the inputs of one layer, ordered so that the matrices of an entry may be the source of an earlier
// one. Inputs that cannot be scaled in this architecture are left out.
std::vector<ScalableInput> scalable_inputs(const Checkpoint& checkpoint, int32_t layer);

}  // namespace quire
