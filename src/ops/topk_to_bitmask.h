// Top-k of a row of scores to a bitmask, shared by the topk ops of all tables.
#pragma once

#include <cstdint>

#include "ops/op_table.h"

namespace quire {

// Sets the bits of the `count` highest of scores[0, n); ties go to the first. Sets all bits if n <= count.
// Writes (n + 63) / 64 words.
void topk_to_bitmask(const float* scores, int64_t n, int64_t count, uint64_t* words);
// The same for blocks of n positions, with one score per block: sets the bits of all positions of the
// selected blocks. Overwrites the scores of the blocks that are always selected.
void topk_blocks_to_bitmask(float* scores, int64_t n, const KeyBlocks& blocks, uint64_t* words);
// Sets the first n bits, and clears the other bits of the last word.
void mark_all(int64_t n, uint64_t* words);

}  // namespace quire
