// Validation of sampling parameters.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "contract/sampling_params.h"

namespace quire {

inline constexpr int32_t kMaxSamplesPerRequest = 16384;
inline constexpr int32_t kMaxBeamWidth = 1024;

// Checks the range of every field, and fields that beam search does not support. The failure's `param` is the
// field's name; the message contains the value and the range. max_logprobs: maximum number of logprobs per
// token; -1 = the whole vocabulary.
Status validate(const SamplingParams& params, int32_t vocab_size, int32_t max_logprobs);

// Returns the request's seed, or, if it has none (or -1), one derived from the engine's seed and the
// request's number.
uint64_t effective_seed(const SamplingParams& params, uint64_t engine_seed, uint64_t request_number);

}  // namespace quire
