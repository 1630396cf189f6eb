// The weights of a model that adapters can change, from its description. Load time only.
#pragma once

#include "io/checkpoint.h"
#include "models/param_list.h"
#include "models/tensor_resolver.h"
#include "nn/adapter_targets.h"

namespace quire {

// Numbers the sites as WeightLoader does for the same model. A module has all names of the architecture's
// name table, whichever of them the checkpoint uses. Throws Error as describe_model() does.
AdapterTargets adapter_targets(const ModelToDescribe& model, const TensorResolver& resolver);

// spec: read_spec() of the checkpoint.
AdapterTargets adapter_targets(const Checkpoint& checkpoint, const ModelSpec& spec);

}  // namespace quire
