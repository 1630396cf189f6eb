// The highest of many scores, as bits: how all tables choose what a row attends to (OpTable::choose_keys).
#pragma once

#include <cstdint>

#include "ops/op_table.h"

namespace quire {

// Sets the bits of the `count` highest of scores[0, n), of equal ones of those that come first; of all where
// there are no more. Writes (n + 63) / 64 words.
void mark_best(const float* scores, int64_t n, int64_t count, uint64_t* words);
// The same of blocks of n positions: sets the bits of all positions in them. Overwrites scores, one for each
// block, where blocks count whatever they score.
void mark_best_blocks(float* scores, int64_t n, const KeyBlocks& blocks, uint64_t* words);
// Sets the first n bits, and clears the others of their last word.
void mark_all(int64_t n, uint64_t* words);

}  // namespace quire
