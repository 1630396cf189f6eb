// The two-way table of a tokenizer's tokens.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/ids.h"

namespace quire::tokenizer {

// Ids above this are taken for damage: the tables are as long as the highest id.
inline constexpr uint64_t kHighestTokenId = (1u << 24) - 1;

// Spelling <-> id. Filled while loading, immutable afterwards.
class Vocabulary {
 public:
  // Room for `tokens` tokens of `bytes` bytes in all; more may follow.
  void reserve(size_t tokens, size_t bytes);

  enum class Added { kNew, kSame, kIdTaken, kTokenTaken };
  // Adds a pair. kIdTaken: the id has another spelling; kTokenTaken: the spelling has another id; nothing is
  // changed then.
  Added add(std::string_view token, TokenId id);
  // Gives an id a spelling whose reverse is not wanted, or has another id already.
  void add_spelling(std::string_view token, TokenId id);
  // Makes `id` the id of a spelling that may have had another one.
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
  size_t count() const { return count_; }         // spellings

 private:
  std::string_view store(std::string_view token);
  void grow_slots(size_t tokens);
  size_t slot_of(std::string_view token) const;

  std::deque<std::string> arenas_;        // never reallocated, the views point into them
  std::vector<std::string_view> tokens_;  // [highest id + 1]
  std::vector<uint64_t> slots_;           // open addressing: upper half of the hash << 32 | id + 1, 0 = free
  size_t count_ = 0;
};

}  // namespace quire::tokenizer
