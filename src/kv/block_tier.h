// One tier of the cache (device, host or disk): its blocks, how often each is used, and which hold content
// that can be found by name. Owned by KvManager; engine thread only. Every operation is O(1) for a block.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "contract/ids.h"
#include "contract/step_plan.h"
#include "kv/block_pool.h"
#include "kv/prefix_index.h"

namespace quire {

class BlockTier {
 public:
  // indexed: content can be published and found. Throws Error unless both numbers are positive.
  BlockTier(KvTier tier, int32_t num_blocks, int32_t block_size, bool indexed);

  KvTier tier() const { return tier_; }
  int32_t num_blocks() const { return pool_.num_blocks(); }
  int32_t block_size() const { return pool_.block_size(); }
  int32_t num_free() const { return pool_.num_free(); }  // cached ones included
  int32_t num_used() const { return pool_.num_used(); }
  int32_t num_cached() const { return num_cached_; }  // free, with content that can be found
  int64_t num_evicted() const { return num_evicted_; }
  int32_t ref_count(BlockId block) const { return pool_.ref_count(block); }

  BlockId next_free() const { return pool_.next_free(); }
  // Takes next_free() with one reference; what was found there is forgotten. -1 when none is free.
  BlockId take();
  // One more reference.
  void hold(BlockId block);
  // One reference less. With the last one the block is free, and stays findable if its content is published.
  void release(BlockId block);
  // A free block with content becomes the last of them to be reused.
  void touch(BlockId block);

  BlockId find(const PrefixIndex::Key& key) const { return index_.find(key); }
  bool published(BlockId block) const { return index_.published(block); }
  // Of a published block; its token ids are valid while it is.
  PrefixIndex::Key key_of(BlockId block) const { return index_.key_of(block); }
  // Makes a held block findable; false when its name belongs to other content.
  bool publish(BlockId block, const PrefixIndex::Key& key) { return index_.publish(block, key); }
  // A held block is no longer found.
  void forget(BlockId block);
  void forget_all();

  void set_filled(BlockId block, int32_t num_slots) { pool_.set_filled(block, num_slots); }
  int32_t filled(BlockId block) const { return pool_.filled(block); }
  int64_t filled_slots_in_use() const { return pool_.filled_slots_in_use(); }

  // Throws Error when a block's reference count is not the expected one, or pool and index disagree.
  void check_integrity(std::span<const int32_t> references) const;

 private:
  KvTier tier_;
  BlockPool pool_;
  PrefixIndex index_;
  int32_t num_cached_ = 0;
  int64_t num_evicted_ = 0;
};

}  // namespace quire
