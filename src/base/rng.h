// Counter-based random numbers. Each is a function of a key and a counter, so a draw can be repeated in
// another batch, on another thread or after a preemption. Pure functions; may be called from any thread.
#pragma once

#include <array>
#include <cstdint>

namespace quire {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): 128 random bits from
// a 128-bit counter and a 64-bit key, least significant words first.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The 128 random bits of a draw: key = seed, counter = (counter, stream). Streams of one seed are
// independent.
std::array<uint32_t, 4> random_words(uint64_t seed, uint64_t stream, uint64_t counter);

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection on 64 bits in which every output bit
// depends on every input bit.
uint64_t mix64(uint64_t value);

// Seed number `index` of the family `base`. A request without a seed gets the one for the engine's seed and
// the request's id.
uint64_t derive_seed(uint64_t base, uint64_t index);

}  // namespace quire
