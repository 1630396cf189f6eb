// The architectures that can be run: one line each in registry.cc, one short file each in models/arch.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "models/arch_spec.h"
#include "models/config_reader.h"
#include "models/weight_names.h"

namespace quire {

struct Architecture {
  std::string_view name;        // as config.json's `architectures` has it
  std::string_view model_type;  // for a config.json without `architectures`
  ArchSpec (*parse)(const ConfigReader& config);
  WeightNames (*weight_names)();
};

std::span<const Architecture> architectures();

// By config.json's `architectures`, or by its `model_type`; of a model that also sees or hears, what its text
// goes through. Throws Error naming those that are supported.
const Architecture& find_architecture(const ConfigReader& config);
// How its checkpoints call their tensors.
WeightNames find_weight_names(const ConfigReader& config);

}  // namespace quire
