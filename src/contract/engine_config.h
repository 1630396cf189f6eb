// EngineConfig is the name that the layers use for the public EngineOptions, and the ranges of its numbers.
#pragma once

#include "quire/engine_options.h"

namespace quire {

using EngineConfig = EngineOptions;

// Throws Error, with flag, value and range, if a number is out of range. Called before anything is downloaded
// or loaded.
void check_config(const EngineConfig& config);

}  // namespace quire
