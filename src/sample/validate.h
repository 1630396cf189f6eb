// The ranges of what a request may ask of the sampler.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "contract/sampling_params.h"

namespace quire {

inline constexpr int32_t kMaxSamplesPerRequest = 16384;
inline constexpr int32_t kMaxBeamWidth = 1024;

// Checks every field, and what a beam search does not take; the failure's `param` is the field's name and its
// message gives the value and the range. max_logprobs: the most alternatives a request may ask for; -1: the
// whole vocabulary may be asked for.
Status validate(const SamplingParams& params, int32_t vocab_size, int32_t max_logprobs);

// The seed that a request's tokens are drawn from: its own, or, where it has none (or -1, which means the
// same), one derived from the engine's seed and the request's number.
uint64_t effective_seed(const SamplingParams& params, uint64_t engine_seed, uint64_t request_number);

}  // namespace quire
