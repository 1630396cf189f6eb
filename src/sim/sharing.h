// What sharing blocks saves: of the blocks that all tables name, the part that needs no block of its own
// because another table names the same. Deterministic; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "sim/replica.h"
#include "sim/trace.h"

namespace quire::sim {

struct SharingPoint {
  std::string method;  // "parallel sampling" or "beam search"
  int32_t width = 0;   // samples or beams
  double saved = 0.0;  // (entries of all tables - blocks used) / entries of all tables, summed over steps
};

// n samples of each prompt through the real scheduler, all requests at once and memory for all that run.
// Sharing between the samples of a prompt alone counts: prompts share nothing with each other here, whatever
// the trace says.
SharingPoint parallel_sampling_sharing(const Trace& trace, const ReplicaOptions& options,
                                       int32_t num_samples);

// `width` beams of each prompt through KvManager, one prompt after the other. Which beam continues which is
// what scores decide: each beam's next tokens get probabilities from a made-up model (the likeliest has 2/3
// on the average, the next 2/3 of the rest, ...), and the `width` likeliest texts go on.
SharingPoint beam_search_sharing(const Trace& trace, int32_t block_size, int32_t width, uint64_t seed);

}  // namespace quire::sim
