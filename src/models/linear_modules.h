// The matrices that a model multiplies with, by the names that its checkpoint has for them: what a tool that
// changes weights works on. Load time only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "models/weight_names.h"

namespace quire {

struct LinearModule {
  std::string name;    // "model.layers.0.mlp.up_proj"
  std::string weight;  // the tensor
  Role role = Role::kQuery;
  int32_t layer = -1;   // -1: of no layer
  int32_t expert = -1;  // -1: of no expert
  // One matrix [out, in] that may be stored as codes: not transposed, not all experts in one, not split in
  // pieces as it is loaded.
  bool plain = false;
  // Chooses experts, or how fast a state fades: so small and worth so much that it stays floats.
  bool router = false;
};

// In the order of the layers; the output embedding, where it is a tensor of its own, first. Throws Error
// where the tensors are not those that the configuration describes.
std::vector<LinearModule> linear_modules(const Checkpoint& checkpoint);

// The module of each layer's attention ("model.layers.0.self_attn"), beside whose projections the scales of
// keys and values are written; empty: the layer has none in the cache.
std::vector<std::string> attention_modules(const Checkpoint& checkpoint);

// Matrices whose inputs can be scaled one by one: their columns take factors, and what makes the inputs is
// divided by them, so that the model stays what it is.
struct ScalableInput {
  std::vector<std::string> matrices;  // weights [any, k]
  std::string source;       // the weights [k] of the norm before them, or a matrix [k, any]: its rows
  std::string source_bias;  // of a norm; empty: it has none
  bool norm = false;
  float offset = 0.0F;  // of a norm: it multiplies with its weights plus this
};
// Of a layer, in an order in which the matrix of one may be the source of one before it. What the
// architecture does not allow is left out.
std::vector<ScalableInput> scalable_inputs(const Checkpoint& checkpoint, int32_t layer);

}  // namespace quire
