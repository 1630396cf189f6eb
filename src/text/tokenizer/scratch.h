// Working memory of encode(): reused buffers and a cache of recent words. Owned by the tokenizer's pool, used
// by one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/yield_point.h"
#include "contract/ids.h"
#include "text/tokenizer/min_tree.h"
#include "text/tokenizer/splitters.h"

namespace quire::tokenizer {

// Words and their tokens, one word per slot. A new word replaces the one in its slot, so the size is fixed.
// An entry is one cache line.
class WordCache {
 public:
  static constexpr size_t kLongestWord = 28;
  static constexpr size_t kMaxTokens = 8;

  static bool cacheable(std::string_view word) { return word.size() <= kLongestWord; }

  struct Entry {
    std::array<char, kLongestWord> word{};
    uint8_t word_size = 0;
    uint8_t num_tokens = 0;  // 0 = free
    std::array<TokenId, kMaxTokens> tokens{};

    bool holds(std::string_view other) const {
      return num_tokens != 0 && word_size == other.size() &&
             std::memcmp(word.data(), other.data(), other.size()) == 0;
    }
  };

  // The slot of a word. It may be free or contain another word.
  Entry& slot(std::string_view word);

  // Stores the tokens of the word if they fit.
  static void fill(Entry& entry, std::string_view word, const TokenId* tokens, size_t num_tokens);

 private:
  static constexpr size_t kSlots = size_t{1} << 15;
  std::vector<Entry> entries_;
};

struct Scratch {
  // Called in every loop whose length depends on the text. Checks the token only every 1024 calls.
  void check_cancelled() {
    if ((++num_checks & 1023U) == 0) yield_point.check();
  }

  YieldPoint yield_point;
  uint32_t num_checks = 0;
  WordCache cache;
  std::vector<TokenId> ids;            // symbols of a word
  MinTree ranks;                       // for long words
  std::vector<Range> pieces, matches;  // pre-tokenizer
  std::string text, other;             // normalized text
  std::string words, other_words;      // output of the pre-tokenizer

  // Releases memory that only unusually long texts need.
  void trim();
};

}  // namespace quire::tokenizer
