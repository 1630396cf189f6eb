// The blocks of a KV pool: reference counts, and the free list in order of reuse. Owned by BlockTier; engine
// thread only. Every operation is O(1) and allocates nothing.
//
//   free list   head -> [no cached content, reused first] ... [cached, least recently used] ... [cached,
//   newest] <- tail
//
// A free block with cached content can still be found until it is allocated again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contract/ids.h"

namespace quire {

class BlockPool {
 public:
  // Throws Error unless both are positive.
  BlockPool(int32_t num_blocks, int32_t block_size);

  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t block_size() const { return block_size_; }
  int32_t num_free() const { return num_free_; }
  int32_t num_used() const { return num_blocks() - num_free_; }

  // The free block that is reused next; -1 if none is free.
  BlockId next_free() const { return head_; }

  // Allocates next_free() with one reference. The caller has removed it from the prefix index. Returns -1 if
  // none is free.
  BlockId allocate();

  // Adds a reference; a free block leaves the free list.
  void add_ref(BlockId block);

  // Removes a reference. The last one frees the block: to the tail of the free list if its content is
  // `cached`, otherwise to the head.
  void free(BlockId block, bool cached);

  int32_t ref_count(BlockId block) const { return blocks_[static_cast<size_t>(block)].ref_count; }

  // Number of slots of the block that hold computed tokens, for the fragmentation statistics.
  void set_filled(BlockId block, int32_t num_slots);
  int32_t filled(BlockId block) const { return blocks_[static_cast<size_t>(block)].filled; }
  int64_t filled_slots_in_use() const { return filled_in_use_; }

  // Throws Error if the free list, its length or the filled slots are inconsistent.
  void check_integrity() const;

 private:
  struct Block {
    int32_t ref_count = 0;
    int32_t filled = 0;
    BlockId prev = -1;  // in the free list
    BlockId next = -1;
  };

  Block& at(BlockId block) { return blocks_[static_cast<size_t>(block)]; }
  void unlink(BlockId block);
  void link_head(BlockId block);
  void link_tail(BlockId block);

  std::vector<Block> blocks_;
  int32_t block_size_;
  int32_t num_free_ = 0;
  BlockId head_ = -1;
  BlockId tail_ = -1;
  int64_t filled_in_use_ = 0;
};

}  // namespace quire
