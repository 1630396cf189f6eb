#include "sample/token_counts.h"

#include "base/rng.h"

namespace quire {
namespace {

constexpr size_t kFirstSlots = 64;

size_t slot_of(TokenId token, size_t num_slots) {
  return static_cast<size_t>(mix64(static_cast<uint64_t>(token))) & (num_slots - 1);
}

}  // namespace

void TokenCounts::add_prompt(TokenId token) {
  entry_of(token);
}

void TokenCounts::add_output(TokenId token) {
  ++entry_of(token).in_output;
}

TokenCounts::Entry& TokenCounts::entry_of(TokenId token) {
  if (slots_.size() < 2 * (entries_.size() + 1)) {
    rehash(slots_.empty() ? kFirstSlots : 2 * slots_.size());
  }
  size_t slot = slot_of(token, slots_.size());
  while (slots_[slot] >= 0) {
    Entry& entry = entries_[static_cast<size_t>(slots_[slot])];
    if (entry.token == token) {
      return entry;
    }
    slot = (slot + 1) & (slots_.size() - 1);
  }
  slots_[slot] = static_cast<int32_t>(entries_.size());
  return entries_.emplace_back(Entry{token, 0});
}

void TokenCounts::rehash(size_t num_slots) {
  slots_.assign(num_slots, -1);
  entries_.reserve(num_slots / 2);
  for (size_t i = 0; i < entries_.size(); ++i) {
    size_t slot = slot_of(entries_[i].token, num_slots);
    while (slots_[slot] >= 0) {
      slot = (slot + 1) & (num_slots - 1);
    }
    slots_[slot] = static_cast<int32_t>(i);
  }
}

}  // namespace quire
