// Checks of the tensors of a module that all forms of adapters share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "lora/problems.h"
#include "nn/adapter_targets.h"

namespace quire::lora {

// Adds a problem, and returns false, if the tensor is not a matrix (dimensions = 2) or a vector (1) of a
// floating-point type. part: what the tensor is for the module, in messages.
bool has_form(Problems& problems, std::string_view module, std::string_view part, const TensorInfo& tensor,
              size_t dimensions);

// The same if it does not have the shape that the model needs.
bool has_shape(Problems& problems, std::string_view module, std::string_view part, const TensorInfo& tensor,
               const std::vector<int64_t>& needed);

// The same if A [rank, …] and B […, rank] are not of the same rank.
bool has_same_rank(Problems& problems, std::string_view module, std::string_view part_a, const TensorInfo& a,
                   std::string_view part_b, const TensorInfo& b);

// Sets the slot for a part of the module, or adds a problem if another tensor has it.
void take_slot(Problems& problems, std::string_view module, const TensorInfo*& slot,
               const TensorInfo& tensor);

// Adds a problem if the module does not have the configured rank, or one that is too large. Returns its
// scale. a: the tensor A, whose first dimension is the rank; part: its name.
using ScaleOf = std::function<float(const std::string& module, std::string_view part, const TensorInfo& a)>;

// Whether the name of a module is `end`, or ends with it after a dot.
bool is_end_of_name(std::string_view end, std::string_view module);

// The range of a module of the model. Adds a problem, and returns null, if there is no such module, or none
// in this layer.
const AdapterRange* find_range(const AdapterTargets& targets, std::string_view module, Problems& problems);

}  // namespace quire::lora
