// Byte pair encoding: a word starts as its bytes or characters, and the pair with the lowest rank is merged
// until none is left.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/scratch.h"
#include "text/tokenizer/vocabulary.h"

namespace quire::tokenizer {

// (left id, right id) -> rank and merged id. Open addressing, filled while loading.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;
    TokenId merged;
  };

  void reserve(size_t merges);
  // Replaces an earlier merge of the same pair when `replace`, else keeps it. False if the pair was there.
  bool add(TokenId left, TokenId right, uint32_t rank, TokenId merged, bool replace);
  const Merge* find(TokenId left, TokenId right) const;
  size_t size() const { return count_; }

 private:
  struct Slot {
    uint64_t key = kFree;  // left << 32 | right
    Merge merge{};
  };
  static constexpr uint64_t kFree = ~uint64_t{0};
  static uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const;

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

inline constexpr TokenId kNoToken = -1;

// Immutable after loading.
struct Bpe {
  MergeTable merges;
  // The words are bytes, and each byte is a symbol (`byte_symbols`). Otherwise each character is one.
  bool byte_level = false;
  std::array<TokenId, 256>
      byte_symbols{};          // byte level: token of the byte; else: of the ASCII character; or kNoToken
  bool byte_fallback = false;  // an unknown character becomes its bytes
  std::array<TokenId, 256> fallback_bytes{};  // <0x00> .. <0xFF>, or kNoToken
  bool fuse_unknown = false;                  // a run of unknown characters becomes one unknown token
  TokenId unknown = kNoToken;                 // kNoToken: unknown characters vanish
  bool ignore_merges = false;                 // a word that is a token is that token, whatever the merges say
  std::string continuing_prefix;              // of every character of a word but its first
  std::string word_suffix;                    // of a word's last character
  // A merge never joins a character with a following meta space (U+2581), so words may be cut there.
  bool cut_at_meta_space = false;
};

// Fills byte_symbols, fallback_bytes and cut_at_meta_space from the vocabulary and the merges' pairs.
void prepare(Bpe& bpe, const Vocabulary& vocabulary);

// Appends the tokens of one word: bytes for a byte-level model, valid UTF-8 for others.
void encode_word(const Bpe& bpe, const Vocabulary& vocabulary, std::string_view word, Scratch& scratch,
                 std::vector<TokenId>& out);

// Merges scratch.ids in place of the word and appends the result (shared with SentencePiece). Frozen symbols
// have ids that no merge knows.
void merge_symbols(const MergeTable& merges, Scratch& scratch, std::vector<TokenId>& out);

// The byte that a character of byte-level vocabularies stands for (GPT-2's table), or -1.
int byte_of_character(uint32_t cp);
// The character that stands for a byte there.
uint32_t character_of_byte(uint8_t byte);
// The bytes that a byte-level token stands for; the token's own bytes if a character of it is none of the
// table.
std::string byte_level_bytes(std::string_view token);
// The number of a token of the form <0xNN>, or -1.
int byte_token_value(std::string_view token);

}  // namespace quire::tokenizer
