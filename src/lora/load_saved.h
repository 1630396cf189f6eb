// Loads the matrices that an adapter has instead of the model's. Load time only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "lora/problems.h"
#include "lora/saved_plan.h"
#include "lora/tensor_values.h"
#include "nn/adapter.h"
#include "ops/op_table.h"

namespace quire::lora {

// The model that an adapter is loaded for. All of it outlives the load.
struct AdapterBase {
  const OpTable* ops = nullptr;  // packs matrices; null = the adapter is not run, only examined
  std::optional<DType> dtype;    // of packed matrices, as of the model's; nullopt = as stored
  // Its weights, with which saved ones are compared; null = they count as different.
  const Checkpoint* checkpoint = nullptr;
  std::mutex* reading = nullptr;  // locked while the checkpoint is read; null = there is one thread
  // The biases of these sites [rows of the site], without those that have none.
  std::function<std::map<int32_t, std::vector<float>>(std::span<const int32_t> sites)> biases = nullptr;
  bool keeps_values = false;  // fills ReplacedMatrix::values and bias, to merge the adapter
};

// Fills AdapterWeights::matrices and tables. Matrices that are equal to the base's are removed from `planned`
// and returned by the names of their tensors.
std::vector<std::string> load_saved(std::vector<PlannedMatrix>& planned, const AdapterBase& base,
                                    TensorValues& values, Problems& problems, AdapterWeights& adapter);

}  // namespace quire::lora
