// Random numbers without state: each is a function of a key and a counter, so that a draw can be repeated in
// another batch, on another thread or after a preemption. Pure functions; any thread.
#pragma once

#include <array>
#include <cstdint>

namespace quire {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): 128 random bits of a
// 128-bit counter under a 64-bit key, least significant words first.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// A number in (0, 1), never 0 or 1: key = seed, counter = (counter, stream). Streams of one seed are
// independent.
float uniform_open(uint64_t seed, uint64_t stream, uint64_t counter);  // 23 bits
double uniform_open_double(uint64_t seed, uint64_t stream,
                           uint64_t counter);  // 52 bits; other bits than uniform_open's

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits in which each bit depends on
// all.
uint64_t mix64(uint64_t value);

// The seed number `index` of a family: what requests without a seed of their own get, from the engine's seed
// and their number.
uint64_t derive_seed(uint64_t base, uint64_t index);

}  // namespace quire
