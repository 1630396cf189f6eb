// The output embedding of models that tie it to the input embedding. Load time only.
#pragma once

#include <string>

#include "io/checkpoint.h"
#include "models/model_spec.h"
#include "models/tensor_resolver.h"

namespace quire {

// Names the tensor of the output embedding, also if this checkpoint does not have it: "lm_head.weight". Empty
// if the architecture has no such tensor.
std::string head_name(const ModelSpec& spec, const TensorResolver& resolver);

// The tensor that holds the output embedding in this checkpoint, if it has one: "lm_head.weight"; empty if it
// has none.
std::string stored_head(const ModelSpec& spec, const TensorResolver& resolver);

// Unties the output embedding if the checkpoint has one of its own with other values, as transformers does,
// and adds a warning. An equal one is a second copy.
void use_own_head(const Checkpoint& checkpoint, ModelSpec& spec);

}  // namespace quire
