#include "sched/scheduler_view.h"

#include <algorithm>
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

void mark_cell(PoolView& pool, BlockId block, int32_t owner) {
  BlockCell& cell = pool.cells[static_cast<size_t>(block / pool.blocks_per_cell)];
  if (cell.owner < 0) cell.owner = owner;
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
        mark_cell(pool, block, index);
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

void count_blocks(const BlockTier& tier, PoolView& pool) {
  for (BlockId block = 0; block < pool.num_blocks; ++block) {
    BlockCell& cell = pool.cells[static_cast<size_t>(block / pool.blocks_per_cell)];
    const int32_t refs = tier.ref_count(block);
    if (refs > 0) {
      ++cell.num_used;
      cell.max_refs = std::max(cell.max_refs, refs);
      cell.filled_slots += tier.filled(block);
      if (refs > 1) ++pool.num_shared;
    } else if (tier.is_cached(block)) {
      ++cell.num_cached;
      ++pool.num_cached;
    }
  }
  pool.num_used = tier.num_used();
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
  view.requests.reserve(shown);
  for (const SequenceGroup* group : std::span(groups).first(shown)) {
    view.requests.push_back(describe(*group));
    mark_blocks(state, *group, static_cast<int32_t>(view.requests.size()) - 1, view);
  }
  count_blocks(state.kv.device(), view.device);
  if (host != nullptr) count_blocks(*host, view.host);
  return view;
}

}  // namespace quire
