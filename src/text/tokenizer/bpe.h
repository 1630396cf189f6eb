// Byte pair encoding: a word starts as its bytes or characters, and the pair with the lowest rank is merged
// until no pair can be merged.
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
  // Replaces an earlier merge of the same pair if `replace`, otherwise keeps it. Returns false if the pair
  // exists.
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
  // Words are bytes, and each byte is a symbol (`byte_symbols`). Otherwise each character is a symbol.
  bool byte_level = false;
  std::array<TokenId, 256>
      byte_symbols{};  // byte level: token of the byte; otherwise token of the ASCII character; or kNoToken
  bool byte_fallback = false;                 // unknown characters become their bytes
  std::array<TokenId, 256> fallback_bytes{};  // <0x00> .. <0xFF>, or kNoToken
  bool fuse_unknown = false;                  // a run of unknown characters becomes one unknown token
  TokenId unknown = kNoToken;                 // kNoToken: unknown characters are dropped
  bool ignore_merges = false;     // a word that is a token becomes that token, regardless of merges
  std::string continuing_prefix;  // prefix of every character of a word except the first
  std::string word_suffix;        // suffix of the last character of a word
  // No merge joins a character with a following meta space (U+2581), so words may be split there.
  bool cut_at_meta_space = false;
};

// Fills byte_symbols, fallback_bytes and cut_at_meta_space from the vocabulary and the merges' pairs.
void prepare(Bpe& bpe, const Vocabulary& vocabulary);

// Appends the tokens of a word: bytes for a byte-level model, valid UTF-8 for others.
void encode_word(const Bpe& bpe, const Vocabulary& vocabulary, std::string_view word, Scratch& scratch,
                 std::vector<TokenId>& out);

// Merges the symbols in scratch.ids and appends the result (shared with SentencePiece). Frozen symbols have
// ids without merges.
void merge_symbols(const MergeTable& merges, Scratch& scratch, std::vector<TokenId>& out);

// The byte that a character represents in byte-level vocabularies (GPT-2's table), or -1.
int byte_of_character(uint32_t cp);
// The character that represents a byte in byte-level vocabularies.
uint32_t character_of_byte(uint8_t byte);
// The bytes of a byte-level token. If one of its characters does not represent a byte, the token itself.
std::string byte_level_bytes(std::string_view token);
// The value of a token of the form <0xNN>, or -1.
int byte_token_value(std::string_view token);

}  // namespace quire::tokenizer
