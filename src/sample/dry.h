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

// Whether the last token completes a sequence breaker.
bool ends_with_breaker(std::span<const TokenId> history, const SequenceBreakers& breakers);

// Appends to `found`, by ascending token, each token that would prolong a repetition of at least `min_length`
// of the last tokens of `history`, with the longest such repetition. max_length: the number of tokens after
// the last sequence breaker, which repetitions do not contain. Tokens that contain a breaker are left out.
// breakers: null = none. scratch: any contents, replaced.
void find_repetitions(std::span<const TokenId> history, int32_t max_length, const SequenceBreakers* breakers,
                      int32_t min_length, std::vector<int32_t>& scratch, std::vector<Repetition>& found);

// multiplier * base^(length - allowed_length), finite.
float dry_penalty(int32_t length, float multiplier, float base, int32_t allowed_length);

}  // namespace quire
