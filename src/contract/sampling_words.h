// The texts of sampling parameters as token ids, made by the layer that has the tokenizer.
#pragma once

#include <memory>
#include <vector>

#include "contract/ids.h"

namespace quire {

// Where DRY ends repetitions: at each token that contains a breaker, and where a token that ends with the
// beginning of a breaker is followed by the tokens of its rest.
struct SequenceBreakers {
  struct Split {
    TokenId head = -1;
    std::vector<TokenId> rest;
  };
  std::vector<TokenId> tokens;  // ascending
  std::vector<Split> splits;    // by ascending head
};

// Immutable once shared.
struct SamplingWords {
  std::vector<std::vector<TokenId>> bad_words;  // none is empty
  std::shared_ptr<const SequenceBreakers> breakers;
};
using SharedSamplingWords = std::shared_ptr<const SamplingWords>;  // null = the request has no such texts

}  // namespace quire
