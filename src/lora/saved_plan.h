// Weights and biases of modules that an adapter saves as they are, from the header of its file:
// modules_to_save, the copies of embeddings that PEFT saves next to adapters on them, and trained biases.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "lora/bias_plan.h"
#include "lora/norm_plan.h"
#include "lora/peft_config.h"
#include "lora/problems.h"
#include "lora/tensor_name.h"
#include "nn/adapter_targets.h"

namespace quire::lora {

// A matrix that replaces one of the model.
struct PlannedMatrix {
  std::string name;                // as in the base, with its prefix
  TensorInfo weight;               // [out, in]
  std::optional<TensorInfo> bias;  // [out]
  // PEFT puts a copy of the base into the base itself, so that a tied pair changes as one. Other saved
  // modules replace the module of that name only.
  bool copy = false;
  bool embedding = false;
  int32_t site = -1;                 // without a model: -1
  std::optional<WholeModule> whole;  // what it replaces; set with a model
  int64_t packed_bytes = 0;          // in memory, once loaded

  bool changes_embedding() const { return embedding || (copy && whole && whole->tied); }
  bool changes_output() const { return !embedding || (copy && whole && whole->tied); }
  int64_t bytes() const;  // in memory; before it is loaded, of the values in the file
};

// Collects M.weight and M.bias. targets: null = without a model.
class SavedPlanner {
 public:
  SavedPlanner(const AdapterTargets* targets, Problems& problems) : targets_(targets), problems_(problems) {}

  // Returns whether the tensor belongs to a saved module.
  bool take(const TensorInfo& tensor, const AdapterTensorName& name);
  // By name. Adds to the problems what does not fit.
  std::vector<PlannedMatrix> plan(const PeftConfig& config);
  // The biases of modules whose weights are not saved.
  std::vector<PlannedBias> plan_biases();
  // Weights and biases of norms.
  std::vector<PlannedNorm> plan_norms();

 private:
  struct Tensors {
    const TensorInfo* weight = nullptr;
    const TensorInfo* bias = nullptr;
  };
  void fail(std::string_view module, std::string_view problem);
  bool is_complete(const std::string& name, const Tensors& tensors);
  bool resolve(PlannedMatrix& matrix);

  const AdapterTargets* targets_;
  Problems& problems_;
  std::map<std::string, Tensors> modules_;
};

}  // namespace quire::lora
