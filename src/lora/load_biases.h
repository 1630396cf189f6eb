// Loads biases of the base that an adapter has trained. Load time only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lora/bias_plan.h"
#include "lora/load_saved.h"
#include "lora/problems.h"
#include "lora/tensor_values.h"
#include "ops/low_rank.h"

namespace quire::lora {

// Adds to the biases of the sites, in float32, what the trained ones differ from the model's by. sites: by
// number; null = unchanged so far. Biases that are equal to the model's are removed from `planned` and
// returned by the names of their tensors.
std::vector<std::string> load_biases(std::vector<PlannedBias>& planned, const AdapterBase& base,
                                     TensorValues& values, Problems& problems,
                                     std::vector<std::unique_ptr<LowRank>>& sites);

}  // namespace quire::lora
