// Tokens that are found in a text before it is split: special tokens and others that were added to a
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
  bool single_word = false;  // not within a word
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = true;    // looked for in the normalized text, else in the text as it came
  bool special = false;
  bool space_only = false;  // set by the matcher
};

// Finds a set of tokens, the leftmost first and of these the longest. Immutable after build().
class AddedTokenMatcher {
 public:
  // `spellings[i]` is what to look for for tokens[i] (its content, normalized or not).
  void build(const std::vector<const AddedToken*>& tokens, const std::vector<std::string>& spellings);
  bool empty() const { return tokens_.empty(); }

  // Calls on_text(piece) and on_token(id) in the order of the text. No empty text is passed on.
  template <typename OnText, typename OnToken>
  void split(std::string_view text, const OnText& on_text, const OnToken& on_token) const;

 private:
  struct Match {
    size_t begin, end;
    const AddedToken* token;
  };
  // The next match that starts at `from` or later.
  bool find(std::string_view text, size_t from, Match* match) const;
  // The match with white space added; false when the token must be a word and is not.
  static bool settle(std::string_view text, size_t done, Match* match);

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;
  std::array<bool, 256> starts_{};
  int only_start_ = -1;  // the one byte that all of them start with, or -1
};

template <typename OnText, typename OnToken>
void AddedTokenMatcher::split(std::string_view text, const OnText& on_text, const OnToken& on_token) const {
  size_t done = 0;
  Match match{};
  for (size_t from = 0; !tokens_.empty() && find(text, from, &match);) {
    from = match.end;
    if (!settle(text, done, &match)) continue;
    // What is found within stripped white space counts too, as in the reference; but a token that is itself
    // white space and strips more of it would take quadratic time.
    if (match.token->space_only) from = std::max(from, match.end);
    if (done < match.begin) on_text(text.substr(done, match.begin - done), done == 0);
    on_token(match.token->id);
    done = match.end;
  }
  if (done < text.size()) on_text(text.substr(done), done == 0);
}

}  // namespace quire::tokenizer
