#include "text/tokenizer/vocabulary.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>

namespace quire::tokenizer {

namespace {

uint64_t hash_of(std::string_view token) {
  return XXH3_64bits(token.data(), token.size());
}
uint64_t tag_of(uint64_t hash) {
  return hash & 0xFFFFFFFF00000000ull;
}
TokenId id_of(uint64_t slot) {
  return static_cast<TokenId>(static_cast<uint32_t>(slot) - 1);
}

}  // namespace

void Vocabulary::reserve(size_t tokens, size_t bytes) {
  tokens_.reserve(tokens);
  arenas_.emplace_back().reserve(bytes);
  grow_slots(tokens);
}

void Vocabulary::grow_slots(size_t tokens) {
  const size_t wanted = std::bit_ceil(std::max<size_t>(tokens * 2, 64));
  if (wanted <= slots_.size()) return;
  std::vector<uint64_t> old(wanted, 0);
  old.swap(slots_);
  for (const uint64_t slot : old) {
    if (slot == 0) continue;
    size_t i = hash_of(token(id_of(slot))) & (slots_.size() - 1);
    while (slots_[i] != 0) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = slot;
  }
}

size_t Vocabulary::slot_of(std::string_view spelling) const {
  const uint64_t hash = hash_of(spelling);
  size_t i = hash & (slots_.size() - 1);
  while (slots_[i] != 0 && (tag_of(slots_[i]) != tag_of(hash) || token(id_of(slots_[i])) != spelling)) {
    i = (i + 1) & (slots_.size() - 1);
  }
  return i;
}

std::string_view Vocabulary::store(std::string_view token) {
  if (arenas_.empty() || arenas_.back().size() + token.size() > arenas_.back().capacity() ||
      arenas_.back().capacity() == 0) {
    arenas_.emplace_back().reserve(std::max<size_t>(token.size(), 64 * 1024));
  }
  std::string& arena = arenas_.back();
  const size_t at = arena.size();
  arena.append(token);
  return {arena.data() + at, token.size()};
}

Vocabulary::Added Vocabulary::add(std::string_view token, TokenId id) {
  grow_slots(count_ + 1);
  const size_t slot = slot_of(token);
  if (slots_[slot] != 0) return id_of(slots_[slot]) == id ? Added::kSame : Added::kTokenTaken;
  if (has(id)) return Added::kIdTaken;
  add_spelling(token, id);
  slots_[slot] = tag_of(hash_of(token)) | (static_cast<uint64_t>(id) + 1);
  ++count_;
  return Added::kNew;
}

void Vocabulary::add_spelling(std::string_view token, TokenId id) {
  const auto i = static_cast<size_t>(id);
  if (i >= tokens_.size()) tokens_.resize(i + 1);
  tokens_[i] = store(token);
}

void Vocabulary::set_id(std::string_view token, TokenId id) {
  const size_t slot = slots_.empty() ? 0 : slot_of(token);
  if (slots_.empty() || slots_[slot] == 0) {
    add(token, id);
    return;
  }
  add_spelling(token, id);
  slots_[slot] = tag_of(slots_[slot]) | (static_cast<uint64_t>(id) + 1);
}

std::optional<TokenId> Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) return std::nullopt;
  const size_t slot = slot_of(token);
  if (slots_[slot] == 0) return std::nullopt;
  return id_of(slots_[slot]);
}

}  // namespace quire::tokenizer
