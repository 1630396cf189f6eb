// Finds the architecture of a checkpoint by its config.json.
#pragma once

#include <span>

#include "models/arch/architectures.h"

namespace quire {

std::span<const Architecture> architectures();

// By `architectures` of config.json, or by `model_type`. For multimodal models: the architecture of the
// language model. Throws Error with the supported architectures.
const Architecture& find_architecture(const ConfigReader& config);
// Names of the tensors in its checkpoints.
WeightNames find_weight_names(const ConfigReader& config);

}  // namespace quire
