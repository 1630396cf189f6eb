// Applies temperature and truncation to a row: the request's chain of samplers, or Mirostat.
#pragma once

#include <cstdint>

#include "sample/sampling_state.h"
#include "sample/select.h"

namespace quire {

// Leaves a row unchanged if the request is greedy. position: that of the token to be drawn; with the seed and
// the sample's index it decides whether XTC applies.
void truncate(Row& row, const SamplingState& state, int64_t position, SamplerBuffers& buffers);

// The surprise of an entry in bits, -log2 of its probability in the row.
float surprise_of(const Row& row, size_t index, SamplerBuffers& buffers);

}  // namespace quire
