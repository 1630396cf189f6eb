// Tokens that are found in a text before it is split: special tokens and other tokens that were added to a
// vocabulary.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "contract/ids.h"
#include "text/tokenizer/byte_trie.h"

namespace quire::tokenizer {

struct AddedToken {
  std::string content;
  TokenId id = -1;
  bool single_word = false;  // only matches whole words
  bool lstrip = false;       // also matches white space before it
  bool rstrip = false;       // also matches white space after it
  bool normalized = true;    // matched in the normalized text, otherwise in the original text
  bool special = false;
  bool space_only = false;  // set by the matcher
};

// Finds a set of tokens, leftmost longest. Immutable after build().
class AddedTokenMatcher {
 public:
  // `spellings[i]` is the text to find for tokens[i]: its content, possibly normalized.
  void build(const std::vector<const AddedToken*>& tokens, const std::vector<std::string>& spellings);
  bool empty() const { return tokens_.empty(); }

  // Calls on_text(piece) and on_token(id) in order of the text. Empty text is not passed on.
  template <typename OnText, typename OnToken>
  void split(std::string_view text, const OnText& on_text, const OnToken& on_token) const;

 private:
  struct Match {
    size_t begin, end;
    const AddedToken* token;
  };
  // Finds the next match that starts at or after `from`.
  bool find(std::string_view text, size_t from, Match* match) const;
  // Extends the match by white space; returns false if the token must be a whole word and is not.
  static bool settle(std::string_view text, size_t done, Match* match);

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;
  std::array<bool, 256> starts_{};
  int only_start_ = -1;  // the first byte of all tokens, or -1 if they differ
};

template <typename OnText, typename OnToken>
void AddedTokenMatcher::split(std::string_view text, const OnText& on_text, const OnToken& on_token) const {
  size_t done = 0;
  Match match{};
  for (size_t from = 0; !tokens_.empty() && find(text, from, &match);) {
    from = match.end;
    if (!settle(text, done, &match)) continue;
    // As in the reference, matches within stripped white space count. The exception are tokens that consist
    // of white space and strip more of it, which would take quadratic time.
    if (match.token->space_only) from = std::max(from, match.end);
    if (done < match.begin) on_text(text.substr(done, match.begin - done), done == 0);
    on_token(match.token->id);
    done = match.end;
  }
  if (done < text.size()) on_text(text.substr(done), done == 0);
}

}  // namespace quire::tokenizer
