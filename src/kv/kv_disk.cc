// The disk tier of KvManager: reads through host blocks, and writes.
#include <algorithm>

#include "kv/kv_manager.h"

namespace quire {

bool KvManager::load_from_disk(TableId id, std::span<const TokenId> token_ids, const PrefixMatch& match,
                               std::vector<DiskRead>& reads) {
  Table& table = at(id);
  if (!disk_ || match.num_disk_tokens == 0 || !table.loads.empty()) return false;
  const int32_t limit = (match.num_tokens + match.num_disk_tokens) / block_size();
  const int32_t length = search(table, token_ids, limit, KvTier::kDisk, deep_match_);
  // Holds the blocks that are on the host already while the others are read.
  for (const auto& blocks : deep_match_) {
    for (const CachedBlock& cached : blocks) {
      if (cached.block < 0 || cached.tier != KvTier::kHost) continue;
      host_->add_ref(cached.block);
      table.loads.push_back(cached.block);
    }
  }
  bool begun = false;
  bool full = false;
  for (size_t i = 0; i < static_cast<size_t>(length) && !full; ++i) {
    for (size_t g = 0; g < groups_.size() && !full; ++g) {
      const CachedBlock& cached = deep_match_[g][i];
      if (cached.block < 0 || cached.tier != KvTier::kDisk) continue;
      BlockId host_block = disk_->reading_into(cached.block);
      if (host_block < 0) {
        host_block = host_->allocate();
        full = host_block < 0;
        if (full) continue;
        reads.push_back(disk_->begin_read(cached.block, host_block));
      }
      host_->add_ref(host_block);
      table.loads.push_back(host_block);
      begun = true;
    }
  }
  if (!begun) drop_loads(table);
  return begun;
}

bool KvManager::loading(TableId id) const {
  // Reads nearly always end in the order in which they began, so the last one is checked first.
  const std::vector<BlockId>& loads = at(id).loads;
  return std::any_of(loads.rbegin(), loads.rend(),
                     [this](BlockId block) { return disk_->read_in_flight(block); });
}

void KvManager::drop_loads(Table& table) {
  for (size_t i = table.loads.size(); i-- > 0;) host_->free(table.loads[i]);
  table.loads.clear();
}

void KvManager::finish_disk_io(const DiskOutcome& outcome) {
  if (!disk_) return;
  if (outcome.write) {
    disk_->end_write(outcome.slot, outcome.ok);
    return;
  }
  const BlockId host_block = disk_->reading_into(outcome.slot);
  if (disk_->end_read(outcome.slot, outcome.ok)) {
    host_->set_filled(host_block, block_size());
    host_->insert(host_block, disk_->slots().key_of(outcome.slot));
  }
  host_->free(host_block);
  disk_->free(outcome.slot);
}

void KvManager::take_disk_writes(std::vector<DiskWrite>& writes) {
  if (!disk_) return;
  disk_->take_writes(device_, writes);
  ++plan_;
}

void KvManager::restore_disk(std::span<const StoredBlock> stored) {
  if (!disk_) return;
  for (const StoredBlock& block : stored) {
    const CachedBlockHash& key = block.key;
    if (static_cast<int32_t>(key.token_ids.size()) != block_size()) continue;
    if (key.group < 0 || key.group >= num_groups()) continue;
    disk_->restore(
        block.slot,
        {{key.hash_low, key.hash_high}, {key.parent_low, key.parent_high}, key.group, key.token_ids});
  }
}

}  // namespace quire
