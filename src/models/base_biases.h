// The biases of a checkpoint by adapter site, for adapters that have trained them. Load time only.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "io/checkpoint.h"
#include "models/model_spec.h"

namespace quire {

// The biases of linear layers [rows of the site], in the model's order. sites: as adapter_targets() numbers
// them; those without a bias are left out.
std::map<int32_t, std::vector<float>> read_site_biases(const Checkpoint& checkpoint, const ModelSpec& spec,
                                                       std::span<const int32_t> sites);

}  // namespace quire
