// The blocks of the one KV pool as numbers: who is used how often, which are free, and in which order they
// are reused. Owned by KvManager; engine thread only. Every operation is O(1) and allocates nothing.
//
//   free list   head -> [no cached content, reused first] ... [cached, least recently used] ... [cached,
//   newest] <- tail
//
// A block with cached content stays findable while it is free; taking it from the list is what ends that.
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

  // The free block that is reused next; -1 when none is free.
  BlockId next_free() const { return head_; }

  // Takes next_free() with one reference and nothing in it. The caller has removed it from the prefix index
  // before. -1 when none is free.
  BlockId take();

  // One more reference; a free block leaves the free list.
  void add_ref(BlockId block);

  // One reference less. The last one frees the block: to the tail when its content is `cached`, else to the
  // head.
  void release(BlockId block, bool cached);

  int32_t ref_count(BlockId block) const { return blocks_[static_cast<size_t>(block)].ref_count; }

  // How many of the block's slots hold computed tokens, for the waste of used blocks.
  void set_filled(BlockId block, int32_t num_slots);
  int32_t filled(BlockId block) const { return blocks_[static_cast<size_t>(block)].filled; }
  int64_t filled_slots_in_use() const { return filled_in_use_; }

  // Throws Error when the list, its length or the filled slots disagree with the blocks.
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
