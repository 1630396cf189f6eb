// What one encode() works with: reused buffers and a cache of the words seen last. Owned by the tokenizer's
// pool, used by one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "contract/ids.h"
#include "text/tokenizer/splitters.h"

namespace quire::tokenizer {

// Words and their tokens, one word for each slot: a new word replaces the one in its slot, so the size is
// fixed. An entry is one cache line.
class WordCache {
 public:
  static constexpr size_t kLongestWord = 28;
  static constexpr size_t kMostTokens = 8;

  static bool cacheable(std::string_view word) { return word.size() <= kLongestWord; }

  struct Entry {
    std::array<char, kLongestWord> word{};
    uint8_t word_size = 0;
    uint8_t num_tokens = 0;  // 0: free
    std::array<TokenId, kMostTokens> tokens{};

    bool holds(std::string_view other) const {
      return num_tokens != 0 && word_size == other.size() &&
             std::memcmp(word.data(), other.data(), other.size()) == 0;
    }
  };

  // The slot of a word, which may hold another word or none.
  Entry& slot(std::string_view word);

  // Remembers the word's tokens, if they fit.
  static void fill(Entry& entry, std::string_view word, const TokenId* tokens, size_t num_tokens);

 private:
  static constexpr size_t kSlots = size_t{1} << 15;
  std::vector<Entry> entries_;
};

// A symbol of a word that is being merged; a list through prev/next.
struct Symbol {
  TokenId id;
  int32_t prev;
  int32_t next;
};

// A merge that may be done: the lower rank goes first, then the one further left.
struct Candidate {
  uint32_t rank;
  int32_t left;
  TokenId merged;
  bool operator>(const Candidate& o) const { return rank != o.rank ? rank > o.rank : left > o.left; }
};

struct Scratch {
  WordCache cache;
  std::vector<TokenId> ids;            // the symbols of a word before they are merged
  std::vector<Symbol> symbols;         // long words
  std::vector<Candidate> candidates;   // long words, a heap
  std::vector<Range> pieces, matches;  // pre-tokenizer
  std::string text, other;             // normalized text
  std::string words, other_words;      // what the pre-tokenizer made of it

  // Lets go of what only an unusually long text needed.
  void trim();
};

}  // namespace quire::tokenizer
