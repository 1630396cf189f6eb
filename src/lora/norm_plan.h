// Norms that an adapter has trained, saved whole (modules_to_save) or their biases only, from the header of
// its file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/safetensors.h"
#include "lora/problems.h"
#include "nn/adapter_targets.h"

namespace quire::lora {

// A norm whose weights, bias or both are replaced.
struct PlannedNorm {
  std::string name;                  // as in the base, with its prefix
  std::optional<TensorInfo> weight;  // [size]
  std::optional<TensorInfo> bias;    // [size]
  int32_t site = -1;                 // Norm::site; without a model: -1
  WholeModule whole = {};            // what it replaces; with a model

  int64_t size() const { return (weight ? weight : bias)->shape[0]; }
  int64_t bytes() const {  // in memory
    return size() * static_cast<int64_t>(sizeof(float)) * ((weight ? 1 : 0) + (bias ? 1 : 0));
  }
};

// Whether the saved module is a norm: in the model, or by the shape of its tensors if there is none.
bool is_norm(const std::string& name, const TensorInfo* weight, const AdapterTargets* targets);

// weight, bias: null = not saved, one of them at least is. Adds to the problems, and returns nullopt, if it
// does not fit. targets: null = without a model.
std::optional<PlannedNorm> plan_norm(const std::string& name, const TensorInfo* weight,
                                     const TensorInfo* bias, const AdapterTargets* targets,
                                     Problems& problems);

}  // namespace quire::lora
