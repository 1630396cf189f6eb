// Biases of the base that an adapter has trained (bias = "all" or "lora_only"), from the header of its file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "lora/problems.h"
#include "nn/adapter_targets.h"

namespace quire::lora {

struct PlannedBias {
  std::string name;                  // module, as in the base, with its prefix
  TensorInfo bias;                   // [out], which replaces the module's
  std::vector<AdapterRange> ranges;  // empty without a model
};

// Adds to the problems, and returns nullopt, if it does not fit. targets: null = without a model.
std::optional<PlannedBias> plan_bias(const std::string& name, const TensorInfo& bias,
                                     const AdapterTargets* targets, Problems& problems);

}  // namespace quire::lora
