// Finds the block that holds given tokens after a given prefix. Owned by BlockTier; engine thread only.
// Memory is allocated at the start: a hash table of fixed size with open addressing, and the key of each
// block. Blocks with the same content, computed at the same time, form a list, so that each of them can be
// found.
//
// A block is found only if its tokens, its group and its parent hash are equal to the requested ones, and a
// block is not inserted if other content has the same hash. In a full attention group the parent of every
// cached block is cached too, because blocks are inserted first to last and reused last to first. So a hit in
// such a group is exact by induction, for any hash function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "contract/ids.h"
#include "kv/block_hash.h"

namespace quire {

class PrefixIndex {
 public:
  PrefixIndex(int32_t num_blocks, int32_t block_size);

  struct Key {
    BlockHash hash;
    BlockHash parent;
    int32_t group = 0;
    std::span<const TokenId> token_ids;  // [block_size]
  };

  // The block with this key, or -1.
  BlockId find(const Key& key) const;

  // Inserts a block. Returns false, and changes nothing, if other content has the same hash.
  bool insert(BlockId block, const Key& key);

  // Removes an inserted block.
  void remove(BlockId block);

  // Removes all blocks.
  void clear();

  // The key of an inserted block; its token_ids are valid until it is removed.
  Key key_of(BlockId block) const;

  bool contains(BlockId block) const { return entries_[static_cast<size_t>(block)].inserted; }
  int32_t num_inserted() const { return num_inserted_; }

  // Throws Error if table, lists and counters are inconsistent.
  void check_integrity() const;

 private:
  struct Entry {
    BlockHash hash;
    BlockHash parent;
    int32_t group = 0;
    BlockId prev_same = -1;  // -1 = the head, which is in slots_
    BlockId next_same = -1;
    bool inserted = false;
  };

  size_t home_slot(const BlockHash& hash, int32_t group) const;
  // The slot whose head has this hash and group, or the empty slot for them.
  size_t probe(const BlockHash& hash, int32_t group) const;
  bool same_content(BlockId block, const Key& key) const;
  void erase_slot(size_t slot);

  int32_t block_size_;
  size_t mask_;
  std::vector<BlockId> slots_;      // [power of two >= 2 * num_blocks], -1 is empty
  std::vector<Entry> entries_;      // [num_blocks]
  std::vector<TokenId> token_ids_;  // [num_blocks, block_size]
  int32_t num_inserted_ = 0;
};

}  // namespace quire
