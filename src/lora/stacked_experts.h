// Adapters on parameters that hold the matrices of all experts of a layer (PEFT's target_parameters). With E
// experts and rank r, lora_A [E r, in] has the experts one after another, and lora_B [out, r E] has expert e
// in columns j E + e. PEFT takes a parameter for [E, in, out] before 0.19.1, or for [E, out, in] after,
// whichever it is; where that was wrong, the change is transposed: A is [E r, out] and B [in, r E].
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lora/peft_config.h"

namespace quire::lora {

// The parameters of a module that the configuration lists, of those with the names `parameters`, in their
// order. All of them if it lists none of this module.
std::vector<std::string> targeted_parameters(const PeftConfig& config, std::string_view module,
                                             const std::vector<std::string>& parameters);

// Whether the configuration lists the parameter.
bool is_targeted(const PeftConfig& config, std::string_view parameter);

// Whether the configuration lists a parameter of the module.
bool has_targeted_parameter(const PeftConfig& config, std::string_view module);

// Whether PEFT of this version transposes the change of a parameter [E, in, out] (if stored_transposed) or
// [E, out, in] of square matrices. nullopt: that depends on the version of transformers.
std::optional<bool> transposes_change(std::string_view peft_version, bool stored_transposed);

// The tensors of one parameter, as elements of `size` bytes.
struct StackedTensors {
  const std::byte* a;
  const std::byte* b;
  size_t size;
  int64_t experts;
  int64_t rank;
  int64_t in;
  int64_t out;
  bool transposed;  // the change is transposed
};
// Writes A [rank, in] and B [out, rank] of one expert.
void take_expert(const StackedTensors& from, int64_t expert, std::byte* a, std::byte* b);

}  // namespace quire::lora
