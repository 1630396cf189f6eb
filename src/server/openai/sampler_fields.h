// The fields of the samplers of llama.cpp, of bad words, repetition detection and log-probabilities of given
// tokens, under the names of vLLM and llama.cpp.
#pragma once

#include <string_view>

#include "server/openai/field_reader.h"

namespace quire {

// Sets those that are given. The engine checks their ranges. vocab_size: for lists of token ids.
void read_sampler_fields(FieldReader& fields, int32_t vocab_size, SamplingParams& sampling);

// The value of repetition_detection: {"max_pattern_size", "min_pattern_size", "min_count"}.
Result<RepetitionDetection> read_repetition_detection(const Json& object);

}  // namespace quire
