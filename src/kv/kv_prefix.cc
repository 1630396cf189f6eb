// The prefix cache of KvManager: lookup and insertion.
#include <algorithm>

#include "kv/kv_manager.h"

namespace quire {

void KvManager::extend_hashes(Table& table, std::span<const TokenId> token_ids, int32_t num_blocks) {
  const size_t size = static_cast<size_t>(block_size());
  for (size_t i = table.hashes.size(); i < static_cast<size_t>(num_blocks); ++i) {
    const BlockHash& parent = i == 0 ? table.root : table.hashes[i - 1];
    table.hashes.push_back(hasher_.block(parent, token_ids.subspan(i * size, size)));
  }
}

PrefixIndex::Key KvManager::key_of(const Table& table, std::span<const TokenId> token_ids, int32_t group,
                                   int32_t block) const {
  const size_t i = static_cast<size_t>(block);
  const size_t size = static_cast<size_t>(block_size());
  return {table.hashes[i], i == 0 ? table.root : table.hashes[i - 1], group,
          token_ids.subspan(i * size, size)};
}

void KvManager::find_prefix(TableId id, std::span<const TokenId> token_ids, PrefixMatch& match) {
  match.num_tokens = 0;
  match.num_disk_tokens = 0;
  match.blocks.resize(groups_.size());
  for (auto& blocks : match.blocks) blocks.clear();
  if (!caching_ || token_ids.empty()) return;

  Table& table = at(id);
  // The last token is always computed, for its logits.
  const int32_t limit = static_cast<int32_t>(token_ids.size() - 1) / block_size();
  extend_hashes(table, token_ids, limit);
  const int32_t length = search(table, token_ids, limit, KvTier::kHost, match.blocks);
  match.num_tokens = length * block_size();
  if (disk_ && length < limit) {
    const int32_t deep_length = search(table, token_ids, limit, KvTier::kDisk, deep_match_);
    match.num_disk_tokens = (deep_length - length) * block_size();
  }
}

int32_t KvManager::search(const Table& table, std::span<const TokenId> token_ids, int32_t limit,
                          KvTier lowest, std::vector<std::vector<CachedBlock>>& blocks) const {
  int32_t length = limit;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].kind != KvGroupKind::kFull) continue;
    length = match_full(table, token_ids, static_cast<int32_t>(g), length, lowest, blocks[g]);
  }
  // Window and state groups may have a shorter prefix only, which in turn may need blocks that another group
  // lacks. Repeats until all groups have the same length.
  for (bool agreed = false; !agreed;) {
    agreed = true;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].kind == KvGroupKind::kFull) continue;
      const auto group = static_cast<int32_t>(g);
      const int32_t matched = groups_[g].kind == KvGroupKind::kState
                                  ? match_state(table, token_ids, group, length, lowest, blocks[g])
                                  : match_window(table, token_ids, group, length, lowest, blocks[g]);
      agreed = agreed && matched == length;
      length = matched;
    }
  }
  for (auto& of_group : blocks) of_group.resize(static_cast<size_t>(length));
  return length;
}

CachedBlock KvManager::lookup(const PrefixIndex::Key& key, KvTier lowest) const {
  CachedBlock found = {device_.find(key), KvTier::kDevice};
  if (found.block < 0 && host_) found = {host_->find(key), KvTier::kHost};
  if (found.block < 0 && disk_ && lowest == KvTier::kDisk) found = {disk_->find(key), KvTier::kDisk};
  return found;
}

int32_t KvManager::match_full(const Table& table, std::span<const TokenId> token_ids, int32_t group,
                              int32_t limit, KvTier lowest, std::vector<CachedBlock>& blocks) const {
  blocks.clear();
  for (int32_t i = 0; i < limit; ++i) {
    const CachedBlock found = lookup(key_of(table, token_ids, group, i), lowest);
    if (found.block < 0) break;
    blocks.push_back(found);
  }
  return static_cast<int32_t>(blocks.size());
}

int32_t KvManager::match_window(const Table& table, std::span<const TokenId> token_ids, int32_t group,
                                int32_t limit, KvTier lowest, std::vector<CachedBlock>& blocks) const {
  const KvGroupSpec& spec = groups_[static_cast<size_t>(group)];
  blocks.assign(static_cast<size_t>(limit), CachedBlock{});
  // From the end: if a block is missing, the prefix ends before it.
  int32_t end = limit;
  for (int32_t i = end; i > first_visible_block(spec, end * block_size());) {
    --i;
    const CachedBlock found = lookup(key_of(table, token_ids, group, i), lowest);
    blocks[static_cast<size_t>(i)] = found;
    if (found.block < 0) end = i;
  }
  blocks.resize(static_cast<size_t>(end));
  return end;
}

int32_t KvManager::match_state(const Table& table, std::span<const TokenId> token_ids, int32_t group,
                               int32_t limit, KvTier lowest, std::vector<CachedBlock>& blocks) const {
  blocks.assign(static_cast<size_t>(limit), CachedBlock{});
  for (int32_t end = limit / checkpoint_blocks_ * checkpoint_blocks_; end > 0; end -= checkpoint_blocks_) {
    const CachedBlock found = lookup(key_of(table, token_ids, group, end - 1), lowest);
    if (found.block < 0) continue;
    blocks.resize(static_cast<size_t>(end));
    blocks.back() = found;
    return end;
  }
  blocks.clear();
  return 0;
}

void KvManager::cache_full_blocks(Table& table, std::span<const TokenId> token_ids) {
  const int32_t end = table.num_computed / block_size();
  extend_hashes(table, token_ids, end);
  for (; table.num_cached_blocks < end && table.cacheable; ++table.num_cached_blocks) {
    for (size_t g = 0; g < groups_.size() && table.cacheable; ++g) {
      const bool state = groups_[g].kind == KvGroupKind::kState;
      // A state belongs to the position after all computed tokens.
      const int32_t num_blocks = table.num_cached_blocks + 1;
      if (state && (num_blocks * block_size() != table.num_computed || num_blocks % checkpoint_blocks_ != 0))
        continue;
      const BlockId block = table.groups[g].blocks[state ? 0 : static_cast<size_t>(table.num_cached_blocks)];
      if (block < 0 || device_.is_cached(block)) continue;
      table.cacheable =
          device_.insert(block, key_of(table, token_ids, static_cast<int32_t>(g), table.num_cached_blocks));
    }
  }
}

void KvManager::reset_prefix_cache() {
  device_.remove_all();
  if (host_) host_->remove_all();
  if (disk_) disk_->remove_all();
  // Held blocks are not inserted later: they would have no cached parent.
  for (Table& table : tables_) {
    if (!table.groups.front().blocks.empty()) table.cacheable = false;
  }
}

}  // namespace quire
