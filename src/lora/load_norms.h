// Loads the norms that an adapter has instead of the model's. Load time only.
#pragma once

#include <string>
#include <vector>

#include "lora/load_saved.h"
#include "lora/norm_plan.h"
#include "lora/problems.h"
#include "lora/tensor_values.h"
#include "nn/adapter.h"

namespace quire::lora {

// Fills AdapterWeights::norms. Weights and biases that are equal to the base's are removed from `planned` and
// returned by the names of their tensors.
std::vector<std::string> load_norms(std::vector<PlannedNorm>& planned, const AdapterBase& base,
                                    TensorValues& values, Problems& problems, AdapterWeights& adapter);

}  // namespace quire::lora
