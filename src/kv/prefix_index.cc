#include "kv/prefix_index.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/strings.h"

namespace quire {

PrefixIndex::PrefixIndex(int32_t num_blocks, int32_t block_size)
    : block_size_(block_size),
      mask_(std::bit_ceil(2 * static_cast<size_t>(num_blocks)) - 1),
      slots_(mask_ + 1, -1),
      entries_(static_cast<size_t>(num_blocks)),
      token_ids_(static_cast<size_t>(num_blocks) * static_cast<size_t>(block_size)) {}

size_t PrefixIndex::home_slot(const BlockHash& hash, int32_t group) const {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;
  const uint64_t mixed = (hash.low ^ static_cast<uint64_t>(group)) * kGolden;
  return static_cast<size_t>(mixed ^ (mixed >> 32)) & mask_;
}

size_t PrefixIndex::probe(const BlockHash& hash, int32_t group) const {
  size_t slot = home_slot(hash, group);
  while (slots_[slot] >= 0) {
    const Entry& entry = entries_[static_cast<size_t>(slots_[slot])];
    if (entry.hash == hash && entry.group == group) break;
    slot = (slot + 1) & mask_;
  }
  return slot;
}

bool PrefixIndex::same_content(BlockId block, const Key& key) const {
  const auto begin = token_ids_.begin() + static_cast<ptrdiff_t>(block) * block_size_;
  return entries_[static_cast<size_t>(block)].parent == key.parent &&
         std::equal(key.token_ids.begin(), key.token_ids.end(), begin, begin + block_size_);
}

PrefixIndex::Key PrefixIndex::key_of(BlockId block) const {
  const Entry& entry = entries_[static_cast<size_t>(block)];
  const size_t size = static_cast<size_t>(block_size_);
  return {entry.hash, entry.parent, entry.group,
          std::span(token_ids_).subspan(static_cast<size_t>(block) * size, size)};
}

BlockId PrefixIndex::find(const Key& key) const {
  const BlockId head = slots_[probe(key.hash, key.group)];
  return head >= 0 && same_content(head, key) ? head : -1;
}

bool PrefixIndex::insert(BlockId block, const Key& key) {
  const size_t slot = probe(key.hash, key.group);
  const BlockId head = slots_[slot];
  if (head >= 0 && !same_content(head, key)) return false;
  Entry& entry = entries_[static_cast<size_t>(block)];
  entry = {key.hash, key.parent, key.group, -1, -1, true};
  if (head < 0) {
    slots_[slot] = block;
  } else {
    Entry& first = entries_[static_cast<size_t>(head)];
    entry.prev_same = head;
    entry.next_same = first.next_same;
    if (first.next_same >= 0) entries_[static_cast<size_t>(first.next_same)].prev_same = block;
    first.next_same = block;
  }
  std::copy(key.token_ids.begin(), key.token_ids.end(),
            token_ids_.begin() + static_cast<ptrdiff_t>(block) * block_size_);
  ++num_inserted_;
  return true;
}

void PrefixIndex::remove(BlockId block) {
  Entry& entry = entries_[static_cast<size_t>(block)];
  if (entry.prev_same >= 0) {
    entries_[static_cast<size_t>(entry.prev_same)].next_same = entry.next_same;
  } else {
    const size_t slot = probe(entry.hash, entry.group);
    if (entry.next_same >= 0) {
      slots_[slot] = entry.next_same;
    } else {
      erase_slot(slot);
    }
  }
  if (entry.next_same >= 0) entries_[static_cast<size_t>(entry.next_same)].prev_same = entry.prev_same;
  entry = {};
  --num_inserted_;
}

void PrefixIndex::erase_slot(size_t slot) {
  // Moves later entries of the run back into the hole, so that no tombstones are needed.
  size_t hole = slot;
  for (size_t next = (hole + 1) & mask_; slots_[next] >= 0; next = (next + 1) & mask_) {
    const Entry& entry = entries_[static_cast<size_t>(slots_[next])];
    const size_t home = home_slot(entry.hash, entry.group);
    if (((next - home) & mask_) >= ((next - hole) & mask_)) {
      slots_[hole] = slots_[next];
      hole = next;
    }
  }
  slots_[hole] = -1;
}

void PrefixIndex::clear() {
  std::fill(slots_.begin(), slots_.end(), -1);
  std::fill(entries_.begin(), entries_.end(), Entry{});
  num_inserted_ = 0;
}

void PrefixIndex::check_integrity() const {
  int32_t reached = 0;
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    BlockId prev = -1;
    for (BlockId block = slots_[slot]; block >= 0; block = entries_[static_cast<size_t>(block)].next_same) {
      const Entry& entry = entries_[static_cast<size_t>(block)];
      if (!entry.inserted || entry.prev_same != prev || probe(entry.hash, entry.group) != slot) {
        throw Error(cat("prefix index: broken at KV block ", block));
      }
      if (++reached > num_inserted_) throw Error("prefix index: reaches more KV blocks than it counts");
      prev = block;
    }
  }
  const auto inserted =
      std::count_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.inserted; });
  if (reached != num_inserted_ || inserted != num_inserted_) {
    throw Error(
        cat("prefix index: reaches ", reached, " KV blocks, counts ", num_inserted_, ", marks ", inserted));
  }
}

}  // namespace quire
