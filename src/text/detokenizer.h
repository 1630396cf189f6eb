// Text out of tokens as they come.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "text/tokenizer/tokenizer.h"

namespace quire {

// The incremental decoding of one sequence: the results of push() and flush() put together are
// Tokenizer::decode() of all ids. (One exception, as in the reference: where a run of <0xNN> tokens turns out
// not to be UTF-8, characters of it that have come out already stay.) Time for a token does not depend on how
// many came before. Not thread safe; one for each sequence. The tokenizer must outlive it.
class Detokenizer {
 public:
  // spaces_between_special_tokens changes nothing: tokenizers of these kinds put no spaces there. It is taken
  // because requests may carry it.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens,
              bool spaces_between_special_tokens = true);
  ~Detokenizer();
  Detokenizer(Detokenizer&&) noexcept;
  Detokenizer& operator=(Detokenizer&&) noexcept;

  // Tokens that stand before those to come: their text is not given out, but what follows is written as in a
  // decode of the whole (whether the first word has its space). Call it before the first push(). A character
  // that they leave unfinished comes out whole with the token that ends it.
  void seed(std::span<const TokenId> prompt_ids);

  // The text that is certain now: whole characters only, possibly none. Ids out of range give nothing.
  std::string push(TokenId id);
  // What was held back, at the end of the sequence: U+FFFD for what never became a character.
  std::string flush();

 private:
  struct State;
  void push_to(TokenId id, std::string& out);

  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::unique_ptr<State> state_;
};

}  // namespace quire
