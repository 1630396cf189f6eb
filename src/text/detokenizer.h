// Incremental detokenization.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "text/tokenizer/tokenizer.h"

namespace quire {

// Incremental decoding of one sequence. The concatenated results of push() and flush() are
// Tokenizer::decode() of all ids. There is one exception, as in the reference: if a run of <0xNN> tokens is
// not valid UTF-8, characters that were already returned remain. The time per token does not depend on the
// number of previous tokens. Not thread-safe; one per sequence. The tokenizer must outlive it.
class Detokenizer {
 public:
  // spaces_between_special_tokens has no effect, because these tokenizers do not insert spaces there. It is
  // accepted for compatibility with requests that set it.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens,
              bool spaces_between_special_tokens = true);
  ~Detokenizer();
  Detokenizer(Detokenizer&&) noexcept;
  Detokenizer& operator=(Detokenizer&&) noexcept;

  // Sets the preceding tokens. Their text is not returned, but the following text is the same as in a decode
  // of the whole sequence (such as a space before the first word). Must be called before the first push(). A
  // character that is incomplete at the end of these tokens is returned when it is complete.
  void seed(std::span<const TokenId> prompt_ids);

  // Returns the text that is certain so far: complete characters, possibly none. Ids out of range return
  // nothing.
  std::string push(TokenId id);
  // Returns the remaining text at the end of the sequence, with U+FFFD for incomplete characters.
  std::string flush();

 private:
  struct State;
  void push_to(TokenId id, std::string& out);

  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::unique_ptr<State> state_;
};

}  // namespace quire
