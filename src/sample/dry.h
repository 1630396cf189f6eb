// DRY ("don't repeat yourself"): finds the tokens that would prolong a repetition of the last tokens. By the
// definition of llama.cpp. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "contract/ids.h"
#include "contract/sampling_words.h"

namespace quire {

// A token that followed an earlier occurrence of the last `length` tokens.
struct Repetition {
  TokenId token = -1;
  int32_t length = 0;
};

// Appends to `found`, by ascending token, each token that would prolong a repetition of at least `min_length`
// of the last tokens of `history`, with the longest such repetition. Repetitions do not contain a sequence
// breaker, and tokens that contain one are left out. breakers: null = none. scratch: any contents, replaced.
void find_repetitions(std::span<const TokenId> history, const SequenceBreakers* breakers, int32_t min_length,
                      std::vector<int32_t>& scratch, std::vector<Repetition>& found);

// multiplier * base^(length - allowed_length), finite.
float dry_penalty(int32_t length, float multiplier, float base, int32_t allowed_length);

}  // namespace quire
