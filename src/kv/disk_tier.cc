#include "kv/disk_tier.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"

namespace quire {

DiskTier::DiskTier(int32_t num_slots, int32_t num_device_blocks, int32_t num_host_blocks, int32_t block_size,
                   int32_t max_writes)
    : slots_(KvTier::kDisk, num_slots, block_size, true),
      writing_(static_cast<size_t>(num_slots), 0),
      reading_(static_cast<size_t>(num_slots), -1),
      host_busy_(static_cast<size_t>(num_host_blocks), 0),
      links_(static_cast<size_t>(num_device_blocks)),
      max_writes_(max_writes) {}

int32_t DiskTier::find(const PrefixIndex::Key& key) const {
  const int32_t slot = slots_.find(key);
  return slot >= 0 && writing_[static_cast<size_t>(slot)] == 0 ? slot : -1;
}

void DiskTier::restore(int32_t slot, const PrefixIndex::Key& key) {
  if (slot < 0 || slot >= slots_.num_blocks() || slots_.is_cached(slot) || slots_.ref_count(slot) > 0) return;
  if (slots_.find(key) >= 0) return;
  slots_.add_ref(slot);
  slots_.insert(slot, key);
  slots_.free(slot);
}

void DiskTier::add_to_backlog(BlockId device_block, const PrefixIndex::Key& key) {
  if (links_[static_cast<size_t>(device_block)].listed) return;
  if (const int32_t slot = slots_.find(key); slot >= 0) {
    slots_.touch(slot);
    return;
  }
  link(device_block);
}

void DiskTier::write_or_drop(BlockId device_block, const BlockTier& device) {
  if (!links_[static_cast<size_t>(device_block)].listed) return;
  unlink(device_block);
  if (num_writes_in_flight_ < max_writes_) {
    start_write(device_block, device.key_of(device_block));
  } else {
    ++num_writes_dropped_;
  }
}

void DiskTier::take_writes(const BlockTier& device, std::vector<DiskWrite>& writes) {
  while (backlog_head_ >= 0 && num_writes_in_flight_ < max_writes_) {
    const BlockId block = backlog_head_;
    unlink(block);
    start_write(block, device.key_of(block));
  }
  std::move(pending_.begin(), pending_.end(), std::back_inserter(writes));
  pending_.clear();
}

bool DiskTier::start_write(BlockId device_block, const PrefixIndex::Key& key) {
  // Another block with the same content may have been written first.
  if (slots_.find(key) >= 0) return false;
  const int32_t slot = slots_.allocate();
  if (slot < 0 || !slots_.insert(slot, key)) {
    if (slot >= 0) slots_.free(slot);
    ++num_writes_dropped_;
    return false;
  }
  writing_[static_cast<size_t>(slot)] = 1;
  ++num_writes_in_flight_;
  DiskWrite& write = pending_.emplace_back();
  write.src = device_block;
  write.src_tier = KvTier::kDevice;
  write.slot = slot;
  write.key = {key.hash.low,    key.hash.high, key.parent.low,
               key.parent.high, key.group,     {key.token_ids.begin(), key.token_ids.end()}};
  return true;
}

DiskRead DiskTier::begin_read(int32_t slot, BlockId host_block) {
  slots_.add_ref(slot);
  reading_[static_cast<size_t>(slot)] = host_block;
  host_busy_[static_cast<size_t>(host_block)] = 1;
  return {slot, host_block};
}

bool DiskTier::end_read(int32_t slot, bool ok) {
  host_busy_[static_cast<size_t>(reading_[static_cast<size_t>(slot)])] = 0;
  reading_[static_cast<size_t>(slot)] = -1;
  if (ok) {
    ++num_reads_;
  } else {
    ++num_reads_failed_;
    slots_.remove(slot);
  }
  return ok && slots_.is_cached(slot);
}

void DiskTier::end_write(int32_t slot, bool ok) {
  writing_[static_cast<size_t>(slot)] = 0;
  --num_writes_in_flight_;
  if (ok) {
    ++num_writes_;
  } else {
    ++num_writes_dropped_;
    slots_.remove(slot);
  }
  slots_.free(slot);
}

void DiskTier::remove_all() {
  slots_.remove_all();
  while (backlog_head_ >= 0) unlink(backlog_head_);
}

void DiskTier::link(BlockId device_block) {
  links_[static_cast<size_t>(device_block)] = {backlog_tail_, -1, true};
  (backlog_tail_ < 0 ? backlog_head_ : links_[static_cast<size_t>(backlog_tail_)].next) = device_block;
  backlog_tail_ = device_block;
}

void DiskTier::unlink(BlockId device_block) {
  Link& link = links_[static_cast<size_t>(device_block)];
  (link.prev < 0 ? backlog_head_ : links_[static_cast<size_t>(link.prev)].next) = link.next;
  (link.next < 0 ? backlog_tail_ : links_[static_cast<size_t>(link.next)].prev) = link.prev;
  link = {};
}

void DiskTier::check_integrity(const BlockTier& device) const {
  std::vector<int32_t> references(writing_.begin(), writing_.end());
  for (size_t slot = 0; slot < reading_.size(); ++slot) references[slot] += reading_[slot] >= 0 ? 1 : 0;
  slots_.check_integrity(references);
  if (std::count(writing_.begin(), writing_.end(), 1) != num_writes_in_flight_) {
    throw Error(cat("disk tier: wrong count of writes in flight: ", num_writes_in_flight_));
  }
  int32_t num_listed = 0;
  for (BlockId block = backlog_head_; block >= 0; block = links_[static_cast<size_t>(block)].next) {
    if (!device.is_cached(block))
      throw Error(cat("KV block ", block, ": in the disk backlog, but not in the prefix cache"));
    if (++num_listed > device.num_blocks()) throw Error("disk tier: the backlog is circular");
  }
}

}  // namespace quire
