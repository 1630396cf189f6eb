// Examines LoRA adapters without an executor, for tools.
#pragma once

#include <string>

#include "base/error.h"
#include "io/checkpoint.h"
#include "lora/load_adapter.h"
#include "models/model.h"

namespace quire {

struct InspectedAdapter {
  lora::AdapterInfo info;
  std::string digest;  // content digest for this base; empty without a base
};

// base: null = none; then only the files of the adapter are examined. With a base, reads the whole adapter.
// Fails as lora::load_adapter does. Throws Error if the base is not a valid model.
Result<InspectedAdapter> inspect_adapter(const lora::AdapterSource& source, const Checkpoint* base,
                                         Runner runner, const lora::AdapterLimits& limits);

}  // namespace quire
