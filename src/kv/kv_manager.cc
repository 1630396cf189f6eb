#include "kv/kv_manager.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/strings.h"

namespace quire {

namespace {

bool is_state(const KvGroupSpec& group) {
  return group.kind == KvGroupKind::kState;
}

// Groups whose old blocks are freed while the sequence grows.
bool is_window(const KvGroupSpec& group) {
  return group.kind == KvGroupKind::kSlidingWindow || group.kind == KvGroupKind::kChunked;
}

void check_layout(const KvLayout& layout) {
  if (layout.groups.empty()) throw Error("KV layout: no group; a model needs at least one");
  for (const KvGroupSpec& group : layout.groups) {
    if (is_window(group) && group.window < 1) {
      throw Error(cat("KV layout: a window or chunk of ", group.window, " tokens; it must be at least 1"));
    }
  }
}

}  // namespace

KvManager::KvManager(const KvLayout& layout, const KvOptions& options)
    : device_(KvTier::kDevice, layout.num_blocks, layout.block_size, options.enable_prefix_caching),
      hasher_(options.hash_seed, options.hash_bits),
      groups_(layout.groups),
      caching_(options.enable_prefix_caching),
      checkpoint_blocks_(std::max(1, options.checkpoint_blocks)) {
  check_layout(layout);
  has_states_ = std::any_of(groups_.begin(), groups_.end(), is_state);
  if (layout.num_host_blocks > 0) {
    host_.emplace(KvTier::kHost, layout.num_host_blocks, layout.block_size, caching_);
    const auto size = static_cast<size_t>(std::max(layout.num_blocks, layout.num_host_blocks));
    visited_.reserve(size);
    moved_.assign(size, -1);
  }
  if (layout.num_disk_blocks > 0 && caching_) {
    if (!host_) throw Error("The disk tier of the KV cache needs host blocks to read into.");
    disk_.emplace(layout.num_disk_blocks, layout.num_blocks, layout.num_host_blocks, layout.block_size,
                  options.max_disk_writes);
    copied_in_.assign(static_cast<size_t>(layout.num_blocks), 0);
    deep_match_.resize(groups_.size());
  }
}

int32_t KvManager::blocks_for(int32_t num_tokens) const {
  return static_cast<int32_t>((int64_t{num_tokens} + block_size() - 1) / block_size());
}

int32_t KvManager::first_visible_block(const KvGroupSpec& group, int32_t num_computed) const {
  return static_cast<int32_t>(first_visible_position(group, num_computed) / block_size());
}

TableId KvManager::new_table() {
  if (closed_.empty()) {
    tables_.emplace_back();
    tables_.back().groups.resize(groups_.size());
    return static_cast<TableId>(tables_.size() - 1);
  }
  const TableId id = closed_.back();
  closed_.pop_back();
  return id;
}

TableId KvManager::open(std::string_view adapter, std::string_view cache_salt) {
  const TableId id = new_table();
  Table& table = at(id);
  table.open = true;
  table.cacheable = caching_;
  table.hashes.clear();
  if (caching_) table.root = hasher_.root(adapter, cache_salt);
  return id;
}

void KvManager::reserve(TableId id, int64_t num_tokens) {
  const size_t num_blocks = static_cast<size_t>((num_tokens + block_size() - 1) / block_size());
  for (GroupTable& group : at(id).groups) group.blocks.reserve(num_blocks);
  if (caching_) at(id).hashes.reserve(num_blocks);
}

void KvManager::close(TableId id) {
  clear(id);
  at(id).open = false;
  closed_.push_back(id);
}

void KvManager::clear(TableId id) {
  Table& table = at(id);
  BlockTier& tier = tier_of(table);
  // Last blocks first, so that they are reused before their parents.
  size_t longest = 0;
  for (const GroupTable& group : table.groups) longest = std::max(longest, group.blocks.size());
  for (size_t i = longest; i-- > 0;) {
    for (const GroupTable& group : table.groups) {
      if (i < group.blocks.size() && group.blocks[i] >= 0) free_block(tier, group.blocks[i]);
    }
  }
  drop_loads(table);
  for (GroupTable& group : table.groups) {
    group.blocks.clear();
    group.first_held = 0;
    group.num_sent = 0;
  }
  table.num_computed = 0;
  table.num_cached_blocks = 0;
  table.cacheable = caching_;
  table.swapped = false;
}

TableId KvManager::fork(TableId parent_id) {
  const TableId id = new_table();
  Table& table = at(id);
  table = at(parent_id);
  table.loads.clear();
  // find_prefix() may have hashed tokens that the parent had generated before it was preempted. Only computed
  // tokens belong to both.
  const auto num_computed_blocks = static_cast<size_t>(table.num_computed / block_size());
  table.hashes.resize(std::min(table.hashes.size(), num_computed_blocks));
  BlockTier& tier = tier_of(table);
  for (const GroupTable& group : table.groups) {
    for (size_t i = static_cast<size_t>(group.first_held); i < group.blocks.size(); ++i)
      tier.add_ref(group.blocks[i]);
  }
  return id;
}

BlockId KvManager::allocate_block(std::vector<BlockCopy>& copies) {
  const BlockId block = device_.next_free();
  if (block >= 0 && device_.is_cached(block)) offload(block, copies);
  return device_.allocate();
}

void KvManager::free_block(BlockTier& tier, BlockId block) {
  tier.free(block);
  if (!disk_ || tier.tier() != KvTier::kDevice || tier.ref_count(block) > 0 || !tier.is_cached(block)) return;
  if (copied_in_[static_cast<size_t>(block)] == plan_) return;
  disk_->add_to_backlog(block, tier.key_of(block));
}

// Saves the content of a cached block that is about to be reused.
void KvManager::offload(BlockId block, std::vector<BlockCopy>& copies) {
  if (disk_) disk_->write_or_drop(block, device_);
  if (!host_) return;
  const PrefixIndex::Key key = device_.key_of(block);
  if (const BlockId there = host_->find(key); there >= 0) {
    host_->touch(there);
    return;
  }
  const BlockId host_block = host_->allocate();
  if (host_block < 0) return;
  if (host_->insert(host_block, key)) {
    host_->set_filled(host_block, block_size());
    copies.push_back({block, host_block, KvTier::kDevice, KvTier::kHost});
  }
  host_->free(host_block);
}

// Returns a device block into which a full host block is copied.
BlockId KvManager::load_back(BlockId host_block, std::vector<BlockCopy>& copies) {
  const BlockId block = allocate_block(copies);
  device_.set_filled(block, host_->filled(host_block));
  copies.push_back({host_block, block, KvTier::kHost, KvTier::kDevice});
  device_.insert(block, host_->key_of(host_block));
  if (disk_) copied_in_[static_cast<size_t>(block)] = plan_;
  return block;
}

int64_t KvManager::blocks_to_hold(std::span<const CachedBlock> blocks) const {
  return std::count_if(blocks.begin(), blocks.end(), [this](const CachedBlock& cached) {
    return cached.block >= 0 && (cached.tier != KvTier::kDevice || device_.ref_count(cached.block) == 0);
  });
}

int64_t KvManager::blocks_to_start(const PrefixMatch& match, int32_t num_tokens, int32_t max_chunk) const {
  int64_t needed = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    int64_t fresh = blocks_for(num_tokens) - static_cast<int64_t>(match.blocks[g].size());
    if (is_window(groups_[g])) {
      // Blocks that leave the window are freed on the way.
      const int64_t visible =
          std::ranges::count_if(match.blocks[g], [](const CachedBlock& cached) { return cached.block >= 0; });
      const int64_t held = max_group_blocks(groups_[g], block_size(), num_tokens, max_chunk);
      fresh = std::clamp<int64_t>(held - visible, 0, fresh);
    }
    if (is_state(groups_[g])) fresh = 1;
    needed += fresh + blocks_to_hold(match.blocks[g]);
  }
  return needed;
}

bool KvManager::start(TableId id, const PrefixMatch& match, int32_t num_tokens,
                      std::vector<BlockCopy>& copies) {
  Table& table = at(id);
  const bool grows = num_tokens > match.num_tokens;
  int64_t needed = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t fresh = blocks_for(num_tokens) - static_cast<int64_t>(match.blocks[g].size());
    needed += (is_state(groups_[g]) ? int64_t{grows} : fresh) + blocks_to_hold(match.blocks[g]);
  }
  if (needed > device_.num_free()) return false;
  // Holds all matched blocks before it allocates one: a free block could be a matched one.
  for (size_t g = 0; g < groups_.size(); ++g) {
    GroupTable& group = table.groups[g];
    group.first_held = first_visible_block(groups_[g], match.num_tokens);
    group.blocks.clear();
    for (const CachedBlock& cached : match.blocks[g]) {
      group.blocks.push_back(cached.block);
      if (cached.block < 0) continue;
      const bool on_host = cached.tier == KvTier::kHost;
      (on_host ? *host_ : device_).add_ref(cached.block);
      ++(on_host ? num_host_hits_ : num_device_hits_);
    }
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (size_t i = 0; i < match.blocks[g].size(); ++i) {
      if (match.blocks[g][i].tier != KvTier::kHost) continue;
      BlockId& block = table.groups[g].blocks[i];
      block = load_back(block, copies);
      table.cacheable = table.cacheable && device_.is_cached(block);
    }
  }
  // Last blocks first, as in clear().
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (size_t i = match.blocks[g].size(); i-- > 0;) {
      if (match.blocks[g][i].tier == KvTier::kHost) host_->free(match.blocks[g][i].block);
    }
  }
  drop_loads(table);
  for (size_t g = 0; g < groups_.size(); ++g) {
    GroupTable& group = table.groups[g];
    if (is_state(groups_[g])) {
      if (!group.blocks.empty()) group.blocks.erase(group.blocks.begin(), group.blocks.end() - 1);
      if (grows) renew_state(group, match.num_tokens, copies);
      continue;
    }
    while (static_cast<int32_t>(group.blocks.size()) < blocks_for(num_tokens))
      group.blocks.push_back(allocate_block(copies));
  }
  table.num_computed = match.num_tokens;
  table.num_cached_blocks = match.num_tokens / block_size();
  return true;
}

bool KvManager::allocate_slots(TableId id, int32_t num_tokens, std::vector<BlockCopy>& copies) {
  Table& table = at(id);
  const int32_t num_blocks = blocks_for(num_tokens);
  const size_t first_written = static_cast<size_t>(table.num_computed / block_size());
  int32_t needed = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const GroupTable& group = table.groups[g];
    if (is_state(groups_[g])) {
      needed += num_tokens > table.num_computed && needs_new_state(group) ? 1 : 0;
      continue;
    }
    needed += std::max(0, num_blocks - static_cast<int32_t>(group.blocks.size()));
    for (size_t i = first_written; i < group.blocks.size(); ++i)
      needed += device_.ref_count(group.blocks[i]) > 1 ? 1 : 0;
  }
  if (needed == 0) return true;
  if (needed > device_.num_free()) return false;
  for (size_t g = 0; g < groups_.size(); ++g) {
    GroupTable& group = table.groups[g];
    if (is_state(groups_[g])) {
      if (num_tokens > table.num_computed) renew_state(group, table.num_computed, copies);
      continue;
    }
    replace_shared(group, table.num_computed, copies);
    while (static_cast<int32_t>(group.blocks.size()) < num_blocks)
      group.blocks.push_back(allocate_block(copies));
  }
  return true;
}

// The live state is overwritten in place, unless another table holds it or the prefix cache has it.
bool KvManager::needs_new_state(const GroupTable& group) const {
  return group.blocks.empty() || device_.ref_count(group.blocks[0]) > 1 || device_.is_cached(group.blocks[0]);
}

void KvManager::renew_state(GroupTable& group, int32_t num_computed, std::vector<BlockCopy>& copies) {
  if (!needs_new_state(group)) return;
  const BlockId block = allocate_block(copies);
  if (group.blocks.empty()) {
    group.blocks.push_back(block);
  } else {
    if (num_computed > 0) copies.push_back({group.blocks[0], block});
    free_block(device_, group.blocks[0]);
    group.blocks[0] = block;
  }
  device_.set_filled(block, num_computed > 0 ? block_size() : 0);
  group.num_sent = 0;
}

void KvManager::replace_shared(GroupTable& group, int32_t num_computed, std::vector<BlockCopy>& copies) {
  for (int32_t i = num_computed / block_size(); i < static_cast<int32_t>(group.blocks.size()); ++i) {
    BlockId& block = group.blocks[static_cast<size_t>(i)];
    if (device_.ref_count(block) < 2) continue;
    const BlockId copy = allocate_block(copies);
    const int32_t num_filled = num_computed - i * block_size();
    if (num_filled > 0) {
      copies.push_back({block, copy});
      ++num_copied_on_write_;
      device_.set_filled(copy, num_filled);
    }
    free_block(device_, block);
    block = copy;
    group.num_sent = std::min(group.num_sent, i);
  }
}

void KvManager::commit(TableId id, std::span<const TokenId> token_ids, int32_t num_computed) {
  Table& table = at(id);
  const int32_t end = blocks_for(num_computed);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const GroupTable& group = table.groups[g];
    if (is_state(groups_[g])) {
      if (!group.blocks.empty()) device_.set_filled(group.blocks[0], block_size());
      continue;
    }
    for (int32_t i = table.num_computed / block_size(); i < end; ++i) {
      device_.set_filled(group.blocks[static_cast<size_t>(i)],
                         std::min(block_size(), num_computed - i * block_size()));
    }
  }
  table.num_computed = num_computed;
  if (table.cacheable && num_computed / block_size() > table.num_cached_blocks)
    cache_full_blocks(table, token_ids);
  drop_invisible(table);
}

void KvManager::drop_invisible(Table& table) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    GroupTable& group = table.groups[g];
    const int32_t first = first_visible_block(groups_[g], table.num_computed);
    for (int32_t i = std::min(first, static_cast<int32_t>(group.blocks.size())); i-- > group.first_held;) {
      free_block(device_, group.blocks[static_cast<size_t>(i)]);
      group.blocks[static_cast<size_t>(i)] = -1;
    }
    group.first_held = std::max(group.first_held, std::min(first, static_cast<int32_t>(group.blocks.size())));
  }
}

int64_t KvManager::num_full_groups() const {
  return std::ranges::count(groups_, KvGroupKind::kFull, &KvGroupSpec::kind);
}

int32_t KvManager::num_computed(TableId table) const {
  return at(table).num_computed;
}

std::span<const BlockId> KvManager::block_table(TableId table, int32_t group) const {
  if (at(table).swapped) return {};
  return at(table).groups[static_cast<size_t>(group)].blocks;
}

std::span<const BlockId> KvManager::swapped_blocks(TableId table, int32_t group) const {
  if (!at(table).swapped) return {};
  return at(table).groups[static_cast<size_t>(group)].blocks;
}

int32_t KvManager::tokens_to_checkpoint(TableId table) const {
  if (!has_states_) return 0;
  const int32_t distance = checkpoint_blocks_ * block_size();
  return distance - at(table).num_computed % distance;
}

void KvManager::resend(TableId table) {
  for (GroupTable& group : at(table).groups) group.num_sent = 0;
}

void KvManager::append_updates(TableId id, SeqId seq, StepPlan& plan) {
  Table& table = at(id);
  for (size_t g = 0; g < groups_.size(); ++g) {
    GroupTable& group = table.groups[g];
    const int32_t size = static_cast<int32_t>(group.blocks.size());
    if (group.num_sent == size) continue;
    plan.block_table_updates.push_back({seq, static_cast<int32_t>(g), group.num_sent,
                                        static_cast<int32_t>(plan.block_ids.size()), size - group.num_sent});
    plan.block_ids.insert(plan.block_ids.end(), group.blocks.begin() + group.num_sent, group.blocks.end());
    group.num_sent = size;
  }
}

int64_t KvManager::max_blocks(int64_t num_tokens, int64_t max_chunk) const {
  int64_t sum = 0;
  for (const KvGroupSpec& group : groups_)
    sum += max_group_blocks(group, block_size(), num_tokens, max_chunk);
  return sum;
}

int64_t KvManager::num_held(TableId table) const {
  int64_t sum = 0;
  for (const GroupTable& group : at(table).groups)
    sum += static_cast<int64_t>(group.blocks.size()) - group.first_held;
  return at(table).swapped ? 0 : sum;
}

KvStats KvManager::stats() const {
  const auto stats_of = [](const BlockTier& tier, int64_t num_hits) {
    return KvTierStats{.num_blocks = tier.num_blocks(),
                       .num_used = tier.num_used(),
                       .num_free = tier.num_free(),
                       .num_cached = tier.num_cached(),
                       .num_evicted = tier.num_evicted(),
                       .num_hits = num_hits};
  };
  KvStats stats;
  stats.num_blocks = device_.num_blocks();
  stats.num_used = device_.num_used();
  stats.num_free = device_.num_free();
  stats.num_cached = device_.num_cached();
  stats.slots_used = int64_t{device_.num_used()} * block_size();
  stats.slots_filled = device_.filled_slots_in_use();
  stats.device = stats_of(device_, num_device_hits_);
  if (host_) stats.host = stats_of(*host_, num_host_hits_);
  if (disk_) {
    stats.disk = stats_of(disk_->slots(), disk_->num_reads());
    stats.num_disk_writes = disk_->num_writes();
    stats.num_disk_writes_dropped = disk_->num_writes_dropped();
    stats.num_disk_reads_failed = disk_->num_reads_failed();
  }
  stats.num_swapped_out = num_swapped_out_;
  stats.num_copied_on_write = num_copied_on_write_;
  stats.num_swapped_in = num_swapped_in_;
  return stats;
}

void KvManager::check_integrity() const {
  std::vector<int32_t> on_device(static_cast<size_t>(device_.num_blocks()), 0);
  std::vector<int32_t> on_host(host_ ? static_cast<size_t>(host_->num_blocks()) : 0, 0);
  for (size_t t = 0; t < tables_.size(); ++t) {
    const Table& table = tables_[t];
    for (const BlockId block : table.loads) ++on_host[static_cast<size_t>(block)];
    for (size_t g = 0; g < groups_.size(); ++g) {
      const GroupTable& group = table.groups[g];
      if (!table.open && (!group.blocks.empty() || !table.loads.empty() || table.swapped))
        throw Error(cat("KV table ", t, ": closed, but holds blocks"));
      for (size_t i = 0; i < group.blocks.size(); ++i) {
        const BlockId block = group.blocks[i];
        if ((block < 0) != (static_cast<int32_t>(i) < group.first_held)) {
          throw Error(cat("KV table ", t, ", group ", g, ": block ", i, " is missing or was not freed"));
        }
        if (block >= 0) ++(table.swapped ? on_host : on_device)[static_cast<size_t>(block)];
      }
    }
  }
  if (disk_) {
    disk_->check_integrity(device_);
    for (BlockId block = 0; block < host_->num_blocks(); ++block)
      on_host[static_cast<size_t>(block)] += disk_->read_in_flight(block) ? 1 : 0;
  }
  device_.check_integrity(on_device);
  if (host_) host_->check_integrity(on_host);
}

}  // namespace quire
