// The supported architectures. Each file of this folder has its own rows.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "io/config_reader.h"
#include "models/model_spec.h"
#include "models/tensor_names.h"

namespace quire {

struct Architecture {
  std::string_view name;        // as in `architectures` of config.json
  std::string_view model_type;  // for a config.json without `architectures`
  // Throws Error if a field is missing, wrong or not supported.
  ModelSpec (*parse)(const ConfigReader& config);
  WeightNames (*weight_names)();
};

std::vector<Architecture> all_architectures();  // sorted by name

}  // namespace quire
