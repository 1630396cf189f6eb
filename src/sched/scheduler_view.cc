#include "sched/scheduler_view.h"

#include <algorithm>
#include <array>
#include <span>

#include "sched/scheduler_state.h"

namespace quire {
namespace {

RequestPhase phase_of(const SequenceGroup& group) {
  if (group.loading) return RequestPhase::kLoading;
  if (!group.started) return RequestPhase::kQueued;
  if (group.num_running == 0) return RequestPhase::kPreempted;
  const bool behind = std::any_of(group.samples.begin(), group.samples.end(), [](const Sequence& s) {
    return s.state == SequenceState::kRunning && s.num_left() > 1;
  });
  return behind ? RequestPhase::kPrefill : RequestPhase::kDecode;
}

bool runs(const SequenceGroup& group) {
  return group.num_running > 0;
}

RequestView describe(const SequenceGroup& group) {
  RequestView view;
  view.id = group.id;
  view.phase = phase_of(group);
  view.num_sequences = group.num_sequences();
  view.num_prompt_tokens = group.num_prompt_tokens;
  view.num_cached_tokens = group.num_cached_tokens;
  for (const Sequence& sample : group.samples)
    view.num_computed_tokens = std::max(view.num_computed_tokens, sample.num_computed_tokens);
  return view;
}

BlockCell& cell_of(PoolView& pool, BlockId block) {
  return pool.cells[static_cast<size_t>(block / pool.blocks_per_cell)];
}

// The occupied cell of a used block, or null if the pool has none.
BlockCell* placed_cell_of(PoolView& pool, BlockId block) {
  const int32_t index = block / pool.blocks_per_placed;
  const auto found = std::lower_bound(pool.placed.begin(), pool.placed.end(), index,
                                      [](const PlacedCell& placed, int32_t i) { return placed.index < i; });
  return found == pool.placed.end() || found->index != index ? nullptr : &found->cell;
}

void mark_owner(PoolView& pool, BlockId block, int32_t owner) {
  BlockCell& cell = cell_of(pool, block);
  if (cell.owner < 0) cell.owner = owner;
  BlockCell* placed = placed_cell_of(pool, block);
  if (placed != nullptr && placed->owner < 0) placed->owner = owner;
}

// Enters the request at `index` as the owner of its blocks.
void mark_blocks(const SchedulerState& state, const SequenceGroup& group, int32_t index,
                 SchedulerView& view) {
  RequestView& request = view.requests[static_cast<size_t>(index)];
  for (const Sequence& sample : group.samples) {
    if (sample.table < 0) continue;
    const bool swapped = state.kv.swapped_out(sample.table);
    PoolView& pool = swapped ? view.host : view.device;
    request.swapped = request.swapped || swapped;
    for (size_t g = 0; g < state.kv_groups.size(); ++g) {
      const auto group_index = static_cast<int32_t>(g);
      for (const BlockId block : swapped ? state.kv.swapped_blocks(sample.table, group_index)
                                         : state.kv.block_table(sample.table, group_index)) {
        if (block < 0) continue;
        ++request.num_blocks;
        mark_owner(pool, block, index);
      }
    }
  }
}

PoolView empty_pool(int32_t num_blocks, int32_t max_cells) {
  PoolView pool;
  pool.num_blocks = num_blocks;
  pool.blocks_per_cell = std::max(1, (num_blocks + max_cells - 1) / max_cells);
  pool.cells.resize(static_cast<size_t>((num_blocks + pool.blocks_per_cell - 1) / pool.blocks_per_cell));
  return pool;
}

void count_block(const BlockTier& tier, BlockId block, BlockCell& cell) {
  const int32_t refs = tier.ref_count(block);
  if (refs == 0) {
    ++cell.num_cached;
    return;
  }
  ++cell.num_used;
  cell.max_refs = std::max(cell.max_refs, refs);
  cell.filled_slots += tier.filled(block);
}

// Counts in how many groups of 1, 2, 4, … consecutive blocks some blocks lie.
class GroupCounter {
 public:
  GroupCounter() { last_.fill(-1); }
  // Ascending.
  void add(BlockId block) {
    for (size_t level = 0; level < kLevels && last_[level] != block >> level; ++level) {
      last_[level] = block >> level;
      ++count_[level];
    }
  }
  // The size of the smallest groups of which there are at most `max_groups`.
  int32_t group_size(int32_t max_groups) const {
    size_t level = 0;
    while (level + 1 < kLevels && count_[level] > max_groups) ++level;
    return int32_t{1} << level;
  }

 private:
  static constexpr size_t kLevels = 31;
  std::array<int32_t, kLevels> last_;
  std::array<int32_t, kLevels> count_{};
};

void place_blocks(const BlockTier& tier, std::span<const BlockId> blocks, int32_t blocks_per_cell,
                  PoolView& pool) {
  pool.blocks_per_placed = blocks_per_cell;
  for (const BlockId block : blocks) {
    const int32_t index = block / blocks_per_cell;
    if (pool.placed.empty() || pool.placed.back().index != index) pool.placed.push_back({index, {}});
    count_block(tier, block, pool.placed.back().cell);
  }
}

void count_blocks(const BlockTier& tier, const SchedulerViewLimits& limits, PoolView& pool) {
  const auto max_with_cached = static_cast<size_t>(limits.max_with_cached);
  std::vector<BlockId> used;
  std::vector<BlockId> occupied;  // used and cached ones, up to one more than wanted
  GroupCounter groups;
  for (BlockId block = 0; block < pool.num_blocks; ++block) {
    const bool is_used = tier.ref_count(block) > 0;
    if (!is_used && !tier.is_cached(block)) continue;
    count_block(tier, block, cell_of(pool, block));
    if (is_used) {
      used.push_back(block);
      groups.add(block);
      if (tier.ref_count(block) > 1) ++pool.num_shared;
    } else {
      ++pool.num_cached;
    }
    if (occupied.size() <= max_with_cached) occupied.push_back(block);
  }
  pool.num_used = tier.num_used();
  if (pool.blocks_per_cell == 1) return;
  if (occupied.size() <= max_with_cached)
    place_blocks(tier, occupied, 1, pool);
  else
    place_blocks(tier, used, groups.group_size(limits.max_cells), pool);
}

}  // namespace

SchedulerView make_scheduler_view(const SchedulerState& state, const SchedulerViewLimits& limits) {
  std::vector<const SequenceGroup*> groups;
  groups.reserve(state.requests.groups().size());
  for (const auto& [id, group] : state.requests.groups()) groups.push_back(group.get());
  const auto before = [](const SequenceGroup* a, const SequenceGroup* b) {
    return runs(*a) != runs(*b) ? runs(*a) : a->id < b->id;
  };
  const size_t shown = std::min(groups.size(), static_cast<size_t>(limits.max_requests));
  std::partial_sort(groups.begin(), groups.begin() + static_cast<ptrdiff_t>(shown), groups.end(), before);

  SchedulerView view;
  view.num_requests = static_cast<int64_t>(groups.size());
  const BlockTier* host = state.kv.host();
  view.device = empty_pool(state.kv.num_blocks(), limits.max_cells);
  view.host = empty_pool(host == nullptr ? 0 : host->num_blocks(), limits.max_cells);
  count_blocks(state.kv.device(), limits, view.device);
  if (host != nullptr) count_blocks(*host, limits, view.host);
  view.requests.reserve(shown);
  for (const SequenceGroup* group : std::span(groups).first(shown)) {
    view.requests.push_back(describe(*group));
    mark_blocks(state, *group, static_cast<int32_t>(view.requests.size()) - 1, view);
  }
  return view;
}

}  // namespace quire
