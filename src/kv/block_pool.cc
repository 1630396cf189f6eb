#include "kv/block_pool.h"

#include "base/error.h"
#include "base/strings.h"

namespace quire {

BlockPool::BlockPool(int32_t num_blocks, int32_t block_size) : block_size_(block_size) {
  if (num_blocks < 1 || block_size < 1) {
    throw Error(cat("KV cache: ", num_blocks, " blocks of ", block_size,
                    " tokens; both must be at least 1 (--kv-cache-memory, --block-size)"));
  }
  blocks_.resize(static_cast<size_t>(num_blocks));
  for (BlockId block = 0; block < num_blocks; ++block) link_tail(block);
}

BlockId BlockPool::allocate() {
  const BlockId block = head_;
  if (block < 0) return -1;
  unlink(block);
  at(block).ref_count = 1;
  at(block).filled = 0;
  return block;
}

void BlockPool::add_ref(BlockId block) {
  if (at(block).ref_count == 0) {
    unlink(block);
    filled_in_use_ += at(block).filled;
  }
  ++at(block).ref_count;
}

void BlockPool::free(BlockId block, bool cached) {
  if (--at(block).ref_count > 0) return;
  filled_in_use_ -= at(block).filled;
  if (cached) {
    link_tail(block);
  } else {
    link_head(block);
  }
}

void BlockPool::set_filled(BlockId block, int32_t num_slots) {
  if (at(block).ref_count > 0) filled_in_use_ += num_slots - at(block).filled;
  at(block).filled = num_slots;
}

void BlockPool::unlink(BlockId block) {
  Block& record = at(block);
  (record.prev < 0 ? head_ : at(record.prev).next) = record.next;
  (record.next < 0 ? tail_ : at(record.next).prev) = record.prev;
  record.prev = record.next = -1;
  --num_free_;
}

void BlockPool::link_head(BlockId block) {
  at(block).prev = -1;
  at(block).next = head_;
  (head_ < 0 ? tail_ : at(head_).prev) = block;
  head_ = block;
  ++num_free_;
}

void BlockPool::link_tail(BlockId block) {
  at(block).prev = tail_;
  at(block).next = -1;
  (tail_ < 0 ? head_ : at(tail_).next) = block;
  tail_ = block;
  ++num_free_;
}

void BlockPool::check_integrity() const {
  int64_t filled_in_use = 0;
  int32_t unreferenced = 0;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    if (block.ref_count < 0) throw Error(cat("KV block ", i, ": reference count ", block.ref_count));
    if (block.filled < 0 || block.filled > block_size_) {
      throw Error(cat("KV block ", i, ": ", block.filled, " of ", block_size_, " slots are filled"));
    }
    if (block.ref_count == 0) ++unreferenced;
    if (block.ref_count > 0) filled_in_use += block.filled;
  }
  int32_t listed = 0;
  BlockId prev = -1;
  for (BlockId block = head_; block >= 0; block = blocks_[static_cast<size_t>(block)].next) {
    const Block& record = blocks_[static_cast<size_t>(block)];
    if (record.ref_count != 0) throw Error(cat("KV block ", block, ": in use and in the free list"));
    if (record.prev != prev) throw Error(cat("KV block ", block, ": broken link in the free list"));
    if (++listed > num_blocks()) throw Error("KV blocks: the free list is circular");
    prev = block;
  }
  if (prev != tail_ || listed != num_free_ || listed != unreferenced) {
    throw Error(cat("KV blocks: the free list has ", listed, " blocks, ", num_free_, " are counted, ",
                    unreferenced, " have no reference"));
  }
  if (filled_in_use != filled_in_use_) {
    throw Error(cat("KV blocks in use hold ", filled_in_use, " tokens, ", filled_in_use_, " are counted"));
  }
}

}  // namespace quire
