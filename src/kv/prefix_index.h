// Finds the block that already holds given tokens behind a given prefix. Owned by KvManager; engine thread
// only. Memory is decided at start: a table of fixed size with open addressing, and for each block the key it
// is published under. Blocks with the same content (computed side by side) hang in a list behind the first,
// so that each stays known.
//
// A name alone never decides: a block is found only if its tokens, its group and its parent's name are the
// ones asked for, and a block whose name is already taken by other content is not published. In a group that
// keeps whole prefixes the parent of every published block is published too (blocks are published first to
// last and reused last to first), so a hit is exact by induction, whatever the hash does.
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

  // The block published under this key, or -1.
  BlockId find(const Key& key) const;

  // Publishes a block; false (and nothing changes) when its name belongs to other content.
  bool publish(BlockId block, const Key& key);

  // Forgets a published block.
  void remove(BlockId block);

  // Forgets all.
  void clear();

  // The key of a published block; its token_ids are valid while it is published.
  Key key_of(BlockId block) const;

  bool published(BlockId block) const { return entries_[static_cast<size_t>(block)].published; }
  int32_t num_published() const { return num_published_; }

  // Throws Error when table, lists and counters disagree.
  void check_integrity() const;

 private:
  struct Entry {
    BlockHash hash;
    BlockHash parent;
    int32_t group = 0;
    BlockId prev_same = -1;  // -1: the head, which stands in slots_
    BlockId next_same = -1;
    bool published = false;
  };

  size_t home_slot(const BlockHash& hash, int32_t group) const;
  // The slot whose head has this name and group, or the empty slot where it would stand.
  size_t probe(const BlockHash& hash, int32_t group) const;
  bool same_content(BlockId block, const Key& key) const;
  void erase_slot(size_t slot);

  int32_t block_size_;
  size_t mask_;
  std::vector<BlockId> slots_;      // [power of two >= 2 * num_blocks], -1 is empty
  std::vector<Entry> entries_;      // [num_blocks]
  std::vector<TokenId> token_ids_;  // [num_blocks, block_size]
  int32_t num_published_ = 0;
};

}  // namespace quire
