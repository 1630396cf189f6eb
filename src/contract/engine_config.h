// The record is part of the public API; here it has its place among the contracts.
#pragma once

#include "quire/engine_options.h"

namespace quire {

using EngineConfig = EngineOptions;

}  // namespace quire
