// Draws a token by a race: token i with weight w_i arrives at the time e_i / w_i, where the e_i are
// independent exponential numbers, and the first to arrive is drawn. It is token i with probability w_i /
// (sum of all weights), and that sum is not computed (Gumbel-max in logarithms). e_i is a function of
// the key and the token's id alone, so the result does not depend on the order of evaluation, on which other
// tokens were removed before, or on how a vocabulary is divided. Pure functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sample/select.h"

namespace quire {

// 128 random bits per draw: random_words() of the seed, the sample and the position.
using RaceKey = std::array<uint32_t, 4>;

// The exponential number of a token, with mean 1. Its 64 bits of precision are relative to 1, so the smallest
// is 2^-65.
double arrival(const RaceKey& key, TokenId token);

// Returns the index of the first entry of the row to arrive; the lower index of two that arrive together. The
// row has an entry of weight 1 (its maximum is finite) and is described by buffers.block_max. Overwrites
// buffers.weights and .block_sum.
size_t win_race(const Row& row, const RaceKey& key, SamplerBuffers& buffers);

}  // namespace quire
