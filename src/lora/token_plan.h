// Tokens whose embeddings an adapter has trained (trainable_token_indices), from the header of its file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "lora/peft_config.h"
#include "lora/problems.h"
#include "lora/tensor_name.h"
#include "nn/adapter_targets.h"

namespace quire::lora {

struct PlannedTokens {
  std::string name;          // module, as in the base, with its prefix
  TensorInfo values;         // [tokens, size]
  std::vector<int64_t> ids;  // tokens, in the file's order
  int32_t site = -1;         // without a model: -1
  bool embedding = false;    // rows of an embedding
  bool output = false;       // rows of an output layer; both if they are tied

  int64_t bytes() const { return static_cast<int64_t>(values.bytes + ids.size() * sizeof(int32_t)); }
};

// Collects trainable_tokens_delta. targets: null = without a model.
class TokenPlanner {
 public:
  TokenPlanner(const AdapterTargets* targets, Problems& problems) : targets_(targets), problems_(problems) {}

  // Returns whether the tensor has trained tokens.
  bool take(const TensorInfo& tensor, const AdapterTensorName& name);
  // By name. Adds to the problems what does not fit.
  std::vector<PlannedTokens> plan(const PeftConfig& config);

 private:
  void fail(const std::string& module, std::string_view problem);
  bool has_valid_ids(const PlannedTokens& tokens);
  bool resolve(PlannedTokens& tokens);

  const AdapterTargets* targets_;
  Problems& problems_;
  std::map<std::string, const TensorInfo*> modules_;
};

}  // namespace quire::lora
