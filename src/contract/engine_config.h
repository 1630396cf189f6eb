// EngineConfig is the name that the layers use for the public EngineOptions.
#pragma once

#include "quire/engine_options.h"

namespace quire {

using EngineConfig = EngineOptions;

}  // namespace quire
