// Measures the fraction of block table entries that need no block because they share one with another table.
// Deterministic and thread-safe.
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

// Runs n samples per prompt through the real scheduler, with all requests at once and enough memory. Only
// sharing between samples of a prompt counts; shared prefixes of the trace are ignored.
SharingPoint parallel_sampling_sharing(const Trace& trace, const ReplicaOptions& options,
                                       int32_t num_samples);

// Runs `width` beams per prompt through KvManager, one prompt after another. Next-token probabilities come
// from a synthetic model: the most probable token has 2/3 on average, the next one 2/3 of the rest, and so
// on. The `width` hypotheses with the highest scores continue.
SharingPoint beam_search_sharing(const Trace& trace, int32_t block_size, int32_t width, uint64_t seed);

}  // namespace quire::sim
