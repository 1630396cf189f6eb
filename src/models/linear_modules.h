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
  bool router = false;  // chooses experts
};

// In the order of the layers; the output embedding, where it is a tensor of its own, first. Throws Error
// where the tensors are not those that the configuration describes.
std::vector<LinearModule> linear_modules(const Checkpoint& checkpoint);

}  // namespace quire
