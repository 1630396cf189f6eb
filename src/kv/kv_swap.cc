// Swapping of whole sequences between the device and the host pool.
#include <algorithm>

#include "kv/kv_manager.h"

namespace quire {

namespace {

// Values of moved_ that are not block ids.
constexpr BlockId kUnseen = -1;    // not visited yet
constexpr BlockId kNotFound = -2;  // the other tier does not have the content

}  // namespace

int64_t KvManager::plan_move(std::span<const TableId> ids, const BlockTier& from, const BlockTier& to) const {
  for (const BlockId block : visited_) moved_[static_cast<size_t>(block)] = kUnseen;
  visited_.clear();
  int64_t needed = 0;
  for (const TableId id : ids) {
    const Table& table = at(id);
    const auto num_filled = static_cast<size_t>(blocks_for(table.num_computed));
    for (const GroupTable& group : table.groups) {
      for (size_t i = static_cast<size_t>(group.first_held); i < std::min(num_filled, group.blocks.size());
           ++i) {
        const BlockId block = group.blocks[i];
        BlockId& there = moved_[static_cast<size_t>(block)];
        if (there != kUnseen) continue;
        visited_.push_back(block);
        const BlockId found = from.is_cached(block) ? to.find(from.key_of(block)) : -1;
        there = found >= 0 ? found : kNotFound;
        needed += found < 0 || to.ref_count(found) == 0 ? 1 : 0;
      }
    }
  }
  return needed;
}

void KvManager::move(std::span<const TableId> ids, BlockTier& from, BlockTier& to,
                     std::vector<BlockCopy>& copies) {
  // Holds the blocks that exist already before it allocates one: a free block could be one of them.
  for (const BlockId block : visited_) {
    const BlockId there = moved_[static_cast<size_t>(block)];
    if (there >= 0) to.add_ref(there);
  }
  for (const BlockId block : visited_) {
    BlockId& there = moved_[static_cast<size_t>(block)];
    if (there >= 0) continue;
    there = to.tier() == KvTier::kDevice ? allocate_block(copies) : to.allocate();
    to.set_filled(there, from.filled(block));
    copies.push_back({block, there, from.tier(), to.tier()});
    if (from.is_cached(block)) to.insert(there, from.key_of(block));
    if (disk_ && to.tier() == KvTier::kDevice) copied_in_[static_cast<size_t>(there)] = plan_;
  }
  for (const TableId id : ids) {
    Table& table = at(id);
    const auto num_filled = static_cast<size_t>(blocks_for(table.num_computed));
    for (GroupTable& group : table.groups) {
      // Last blocks first: they come before their parents in the order of reuse.
      for (size_t i = group.blocks.size(); i-- > static_cast<size_t>(group.first_held);) {
        BlockId& block = group.blocks[i];
        free_block(from, block);
        if (i >= num_filled) continue;
        block = moved_[static_cast<size_t>(block)];
        to.add_ref(block);
      }
      group.blocks.resize(std::min(num_filled, group.blocks.size()));
      group.num_sent = 0;
    }
  }
  for (const BlockId block : visited_) to.free(moved_[static_cast<size_t>(block)]);
}

bool KvManager::swap_out(std::span<const TableId> ids, std::vector<BlockCopy>& copies) {
  if (!host_ || plan_move(ids, device_, *host_) > host_->num_free()) return false;
  num_swapped_out_ += static_cast<int64_t>(visited_.size());
  move(ids, device_, *host_, copies);
  for (const TableId id : ids) at(id).swapped = true;
  return true;
}

int64_t KvManager::blocks_to_swap_in(std::span<const TableId> ids) const {
  return host_ ? plan_move(ids, *host_, device_) : 0;
}

bool KvManager::swap_in(std::span<const TableId> ids, std::vector<BlockCopy>& copies) {
  if (!host_ || plan_move(ids, *host_, device_) > device_.num_free()) return false;
  num_swapped_in_ += static_cast<int64_t>(visited_.size());
  move(ids, *host_, device_, copies);
  for (const TableId id : ids) {
    Table& table = at(id);
    table.swapped = false;
    // If other content has taken a hash meanwhile, later blocks would have no cached parent.
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].kind == KvGroupKind::kState) continue;
      const GroupTable& group = table.groups[g];
      for (size_t i = static_cast<size_t>(group.first_held); i < static_cast<size_t>(table.num_cached_blocks);
           ++i)
        table.cacheable = table.cacheable && device_.is_cached(group.blocks[i]);
    }
  }
  return true;
}

}  // namespace quire
