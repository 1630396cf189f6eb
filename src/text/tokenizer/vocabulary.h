// The mapping between tokens and ids of a tokenizer.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/ids.h"

namespace quire::tokenizer {

// Larger ids are considered invalid, because tables are as long as the highest id.
inline constexpr uint64_t kHighestTokenId = (1u << 24) - 1;

// The character for a space in vocabularies of SentencePiece: U+2581.
inline constexpr std::string_view kMetaSpace = "\xE2\x96\x81";

// Mapping between spellings and ids. Filled during loading, immutable afterwards.
class Vocabulary {
 public:
  // Reserves memory for `tokens` tokens with a total of `bytes` bytes; more may follow.
  void reserve(size_t tokens, size_t bytes);

  enum class Added { kNew, kSame, kIdTaken, kTokenTaken };
  // Adds a pair. kIdTaken: the id has another spelling. kTokenTaken: the spelling has another id. In both
  // cases nothing is changed.
  Added add(std::string_view token, TokenId id);
  // Adds a spelling for an id without the reverse mapping, which may belong to another id.
  void add_spelling(std::string_view token, TokenId id);
  // Sets the id of a spelling, which may have another id.
  void set_id(std::string_view token, TokenId id);

  std::optional<TokenId> find(std::string_view token) const;
  // "" for an id without a token.
  std::string_view token(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < tokens_.size() ? tokens_[static_cast<size_t>(id)]
                                                               : std::string_view();
  }
  bool has(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < tokens_.size() &&
           tokens_[static_cast<size_t>(id)].data() != nullptr;
  }
  size_t size() const { return tokens_.size(); }  // highest id + 1
  size_t count() const { return count_; }         // number of spellings

 private:
  std::string_view store(std::string_view token);
  void grow_slots(size_t tokens);
  size_t slot_of(std::string_view token) const;

  std::deque<std::string> arenas_;        // never reallocated, because views point into them
  std::vector<std::string_view> tokens_;  // [highest id + 1]
  std::vector<uint64_t> slots_;           // open addressing: upper half of the hash << 32 | id + 1, 0 = free
  size_t count_ = 0;
};

}  // namespace quire::tokenizer
