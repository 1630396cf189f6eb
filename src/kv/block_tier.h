// One tier of the KV cache (device, host or disk): its blocks, their reference counts, and its part of the
// prefix cache. Owned by KvManager; engine thread only. Every operation on a block is O(1).
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
  // indexed: with a prefix cache. Throws Error unless both numbers are positive.
  BlockTier(KvTier tier, int32_t num_blocks, int32_t block_size, bool indexed);

  KvTier tier() const { return tier_; }
  int32_t num_blocks() const { return pool_.num_blocks(); }
  int32_t block_size() const { return pool_.block_size(); }
  int32_t num_free() const { return pool_.num_free(); }  // cached ones included
  int32_t num_used() const { return pool_.num_used(); }
  int32_t num_cached() const { return num_cached_; }  // free, with content in the prefix cache
  int64_t num_evicted() const { return num_evicted_; }
  int32_t ref_count(BlockId block) const { return pool_.ref_count(block); }

  BlockId next_free() const { return pool_.next_free(); }
  // Allocates next_free() with one reference and evicts its cached content. Returns -1 if none is free.
  BlockId allocate();
  // Adds a reference.
  void add_ref(BlockId block);
  // Removes a reference. After the last one the block is free; cached content can still be found.
  void free(BlockId block);
  // Makes a free cached block the last one to be reused.
  void touch(BlockId block);

  BlockId find(const PrefixIndex::Key& key) const { return index_.find(key); }
  bool is_cached(BlockId block) const { return index_.contains(block); }
  // The key of a cached block; its token_ids are valid while the block is cached.
  PrefixIndex::Key key_of(BlockId block) const { return index_.key_of(block); }
  // Inserts a held block into the prefix cache; false if other content has the same hash.
  bool insert(BlockId block, const PrefixIndex::Key& key) { return index_.insert(block, key); }
  // Removes a held block from the prefix cache.
  void remove(BlockId block);
  void remove_all();

  void set_filled(BlockId block, int32_t num_slots) { pool_.set_filled(block, num_slots); }
  int32_t filled(BlockId block) const { return pool_.filled(block); }
  int64_t filled_slots_in_use() const { return pool_.filled_slots_in_use(); }

  // Throws Error if a reference count is not the expected one, or pool and index are inconsistent.
  void check_integrity(std::span<const int32_t> references) const;

 private:
  KvTier tier_;
  BlockPool pool_;
  PrefixIndex index_;
  int32_t num_cached_ = 0;
  int64_t num_evicted_ = 0;
};

}  // namespace quire
