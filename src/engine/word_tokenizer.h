// Turns the texts of sampling parameters into token ids: bad words and the sequence breakers of DRY. Owned by
// the engine; called on the threads of callers, several at once.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "contract/sampling_params.h"
#include "contract/sampling_words.h"

namespace quire {

class Tokenizer;

class WordTokenizer {
 public:
  // tokenizer: null for a model without one, which has neither; otherwise it outlives this. vocab_size: the
  // model's.
  WordTokenizer(const Tokenizer* tokenizer, int32_t vocab_size)
      : tokenizer_(tokenizer), vocab_size_(vocab_size) {}

  // Null if the parameters need no texts. Fails for bad words without a tokenizer, and for one that is white
  // space only.
  Result<SharedSamplingWords> tokenize(const SamplingParams& params);

 private:
  using SharedBreakers = std::shared_ptr<const SequenceBreakers>;

  Status add_bad_word(const std::string& word, std::vector<std::vector<TokenId>>& words) const;
  // The same object while it is among those used last. Searches the whole vocabulary otherwise.
  SharedBreakers breakers(const std::vector<std::string>& texts);
  SequenceBreakers find_breakers(const std::vector<std::string>& texts) const;

  const Tokenizer* tokenizer_;
  int32_t vocab_size_;
  std::mutex mutex_;                                                     // guards last_
  std::list<std::pair<std::vector<std::string>, SharedBreakers>> last_;  // the most recent first
};

}  // namespace quire
