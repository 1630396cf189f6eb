#include "kv/block_tier.h"

#include "base/error.h"
#include "base/strings.h"

namespace quire {

namespace {

const char* name_of(KvTier tier) {
  switch (tier) {
    case KvTier::kDevice:
      return "KV";
    case KvTier::kHost:
      return "host KV";
    case KvTier::kDisk:
      return "disk KV";
  }
  return "";
}

}  // namespace

BlockTier::BlockTier(KvTier tier, int32_t num_blocks, int32_t block_size, bool indexed)
    : tier_(tier),
      pool_(num_blocks, block_size),
      // Without an index nothing is cached, but is_cached() works for all blocks.
      index_(num_blocks, indexed ? block_size : 0) {}

BlockId BlockTier::allocate() {
  const BlockId block = pool_.next_free();
  if (block >= 0 && index_.contains(block)) {
    index_.remove(block);
    --num_cached_;
    ++num_evicted_;
  }
  return pool_.allocate();
}

void BlockTier::add_ref(BlockId block) {
  if (pool_.ref_count(block) == 0 && index_.contains(block)) --num_cached_;
  pool_.add_ref(block);
}

void BlockTier::free(BlockId block) {
  const bool cached = index_.contains(block);
  pool_.free(block, cached);
  if (cached && pool_.ref_count(block) == 0) ++num_cached_;
}

void BlockTier::touch(BlockId block) {
  if (pool_.ref_count(block) > 0) return;
  add_ref(block);
  free(block);
}

void BlockTier::remove(BlockId block) {
  if (index_.contains(block)) index_.remove(block);
}

void BlockTier::remove_all() {
  index_.clear();
  num_cached_ = 0;
}

void BlockTier::check_integrity(std::span<const int32_t> references) const {
  pool_.check_integrity();
  index_.check_integrity();
  int32_t cached = 0;
  for (BlockId block = 0; block < num_blocks(); ++block) {
    const int32_t expected = references[static_cast<size_t>(block)];
    if (expected != ref_count(block)) {
      throw Error(cat(name_of(tier_), " block ", block, ": reference count ", ref_count(block), ", held ",
                      expected, " times"));
    }
    if (ref_count(block) == 0 && is_cached(block)) ++cached;
  }
  if (cached != num_cached_) {
    throw Error(cat(cached, " free ", name_of(tier_), " blocks are cached, ", num_cached_, " are counted"));
  }
}

}  // namespace quire
