// Detects outputs that repeat themselves, by the definition of vLLM. Pure functions; any thread.
#pragma once

#include <span>

#include "contract/ids.h"
#include "contract/sampling_params.h"

namespace quire {

// Whether the output ends with min_count copies of a pattern of min_pattern_size to max_pattern_size tokens.
bool ends_in_repetition(std::span<const TokenId> output, const RepetitionDetection& detection);

}  // namespace quire
