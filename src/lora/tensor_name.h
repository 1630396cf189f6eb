// The names of tensors in adapter files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quire::lora {

// The role of a tensor for the module that its name contains.
enum class TensorRole : uint8_t {
  kA,              // M.lora_A.weight
  kB,              // M.lora_B.weight
  kBBias,          // M.lora_B.bias (lora_bias)
  kEmbeddingA,     // M.lora_embedding_A
  kEmbeddingB,     // M.lora_embedding_B
  kMagnitude,      // M.lora_magnitude_vector (DoRA)
  kTrainedTokens,  // M.token_adapter.trainable_tokens_delta
  kWeight,         // M.weight: a module of modules_to_save, or a copy of the base's
  kBias,           // M.bias
  kOther,
};

struct AdapterTensorName {
  std::string module;  // as in the base, with the base's prefix
  TensorRole role = TensorRole::kOther;
  int32_t base_layers = 0;  // how many "base_layer" were in the name
};

// The module without PEFT's additions to its name, each of which may be missing: "base_model.model." before
// it; the name of the adapter ("default"), "base_layer" and "modules_to_save" in it.
AdapterTensorName parse_tensor_name(std::string_view name);

}  // namespace quire::lora
