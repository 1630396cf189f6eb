// The snapshot of requests and blocks that displays show.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "sched/scheduler.h"
#include "unit/sched/fake_executor.h"

namespace quire {
namespace {

Request make_viewed_request(RequestId id, int32_t num_prompt_tokens, int32_t max_tokens) {
  Request request;
  request.id = id;
  request.prompt_token_ids.resize(static_cast<size_t>(num_prompt_tokens));
  std::iota(request.prompt_token_ids.begin(), request.prompt_token_ids.end(), 1);
  SamplingParams sampling;
  sampling.max_tokens = max_tokens;
  sampling.ignore_eos = true;
  request.sampling = sampling;
  return request;
}

KvLayout layout_of(int32_t num_blocks) {
  KvLayout layout;
  layout.block_size = 4;
  layout.num_blocks = num_blocks;
  layout.bytes_per_block = 64;
  return layout;
}

// Computes one step: every sequence that samples gets the token 1.
void step(Scheduler& scheduler) {
  const StepPlan& plan = scheduler.schedule();
  StepResult result;
  result.step = plan.step;
  for (const ScheduledSequence& sequence : plan.scheduled) {
    if (sequence.sample) result.sampled.push_back({sequence.seq, 1});
  }
  scheduler.commit(result);
}

TEST(SchedulerView, ShowsQueuedAndRunningRequests) {
  Scheduler scheduler({.max_num_seqs = 1, .max_num_batched_tokens = 8}, layout_of(16));
  ASSERT_TRUE(scheduler.add_request(make_viewed_request(0, 12, 8)).ok());
  ASSERT_TRUE(scheduler.add_request(make_viewed_request(1, 12, 8)).ok());
  step(scheduler);
  SchedulerView view = scheduler.view({});
  ASSERT_EQ(view.requests.size(), 2U);
  EXPECT_EQ(view.requests[0].id, 0);
  EXPECT_EQ(view.requests[0].phase, RequestPhase::kPrefill);
  EXPECT_EQ(view.requests[0].num_computed_tokens, 8);
  EXPECT_EQ(view.requests[1].phase, RequestPhase::kQueued);
  step(scheduler);
  view = scheduler.view({});
  EXPECT_EQ(view.requests[0].phase, RequestPhase::kDecode);
  EXPECT_EQ(view.requests[0].num_blocks, 3);
  EXPECT_EQ(view.device.num_used, 3);
}

TEST(SchedulerView, CountsSharedAndCachedBlocks) {
  Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 64}, layout_of(32));
  ASSERT_TRUE(scheduler.add_request(make_viewed_request(0, 13, 2)).ok());
  for (int i = 0; i < 3; ++i) step(scheduler);
  EXPECT_EQ(scheduler.view({}).device.num_cached, 3);
  ASSERT_TRUE(scheduler.add_request(make_viewed_request(1, 13, 8)).ok());
  ASSERT_TRUE(scheduler.add_request(make_viewed_request(2, 13, 8)).ok());
  step(scheduler);
  const SchedulerView view = scheduler.view({});
  EXPECT_EQ(view.device.num_shared, 3);
  EXPECT_EQ(view.device.num_used, 5);
  int32_t max_refs = 0;
  for (const BlockCell& cell : view.device.cells) max_refs = std::max(max_refs, cell.max_refs);
  EXPECT_EQ(max_refs, 2);
}

TEST(SchedulerView, ShowsTheHostBlocksOfSwappedRequests) {
  SchedulerConfig config;
  config.max_num_seqs = 2;
  config.max_num_batched_tokens = 64;
  config.preemption_mode = PreemptionMode::kSwap;
  KvLayout layout = layout_of(8);
  layout.num_host_blocks = 16;
  Scheduler scheduler(config, layout);
  // 4 blocks each at the start, up to 8 at the end: one of them is swapped out.
  for (RequestId id = 0; id < 2; ++id) {
    Request request = make_viewed_request(id, 15, 16);
    request.prompt_token_ids.front() = 100 + id;  // shares no block
    ASSERT_TRUE(scheduler.add_request(std::move(request)).ok());
  }
  SchedulerView view;
  for (int i = 0; i < 8 && view.host.num_used == 0; ++i) {
    step(scheduler);
    view = scheduler.view({});
  }
  ASSERT_GT(view.host.num_used, 0);
  ASSERT_EQ(view.requests.size(), 2U);
  EXPECT_TRUE(view.requests[1].swapped);
  EXPECT_EQ(view.requests[1].phase, RequestPhase::kPreempted);
  EXPECT_EQ(view.requests[1].num_blocks, view.host.num_used);
  int32_t owned = 0;
  for (const BlockCell& cell : view.host.cells) owned += cell.owner == 1 ? 1 : 0;
  EXPECT_EQ(owned, view.host.num_used);
  for (const BlockCell& cell : view.device.cells) EXPECT_NE(cell.owner, 1);
}

TEST(SchedulerView, StaysWithinItsLimits) {
  Scheduler scheduler({.max_num_seqs = 8, .max_num_batched_tokens = 64}, layout_of(100));
  for (RequestId id = 0; id < 8; ++id) ASSERT_TRUE(scheduler.add_request(make_viewed_request(id, 5, 4)).ok());
  step(scheduler);
  const SchedulerView view = scheduler.view({.max_requests = 3, .max_cells = 7});
  EXPECT_EQ(view.num_requests, 8);
  EXPECT_EQ(view.requests.size(), 3U);
  EXPECT_EQ(view.device.blocks_per_cell, 15);
  EXPECT_EQ(view.device.cells.size(), 7U);
  int32_t used = 0;
  for (const BlockCell& cell : view.device.cells) used += cell.num_used;
  EXPECT_EQ(used, view.device.num_used);
}

TEST(SchedulerView, PlacesTheUsedAndCachedBlocksOfALargePool) {
  Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 64}, layout_of(5000));
  ASSERT_TRUE(scheduler.add_request(make_viewed_request(0, 13, 2)).ok());
  for (int i = 0; i < 3; ++i) step(scheduler);
  ASSERT_TRUE(scheduler.add_request(make_viewed_request(1, 9, 8)).ok());
  Request other = make_viewed_request(2, 9, 8);
  other.prompt_token_ids.front() = 100;  // shares no block
  ASSERT_TRUE(scheduler.add_request(std::move(other)).ok());
  step(scheduler);
  const SchedulerView view = scheduler.view({});
  EXPECT_EQ(view.device.blocks_per_cell, 2);
  EXPECT_EQ(view.device.blocks_per_placed, 1);
  // Request 1 uses two cached blocks and one of its own, request 2 three of its own; one block is cached
  // only.
  std::vector<int32_t> owners;
  for (const PlacedCell& placed : view.device.placed) {
    EXPECT_EQ(placed.cell.num_used + placed.cell.num_cached, 1);
    owners.push_back(placed.cell.owner);
  }
  std::sort(owners.begin(), owners.end());
  EXPECT_EQ(owners, (std::vector<int32_t>{-1, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(scheduler.view({.max_with_cached = 6}).device.placed.size(), 6U) << "cached blocks are left out";
}

TEST(SchedulerView, PlacesGroupsOfBlocksIfThereAreTooMany) {
  Scheduler scheduler({.max_num_seqs = 8, .max_num_batched_tokens = 64}, layout_of(100));
  for (RequestId id = 0; id < 8; ++id) ASSERT_TRUE(scheduler.add_request(make_viewed_request(id, 5, 4)).ok());
  step(scheduler);
  const PoolView pool = scheduler.view({.max_requests = 8, .max_cells = 4, .max_with_cached = 8}).device;
  EXPECT_LE(pool.placed.size(), 4U);
  EXPECT_GT(pool.blocks_per_placed, 1);
  int32_t used = 0;
  for (const PlacedCell& placed : pool.placed) {
    used += placed.cell.num_used;
    EXPECT_EQ(placed.cell.num_cached, 0);
    EXPECT_GE(placed.cell.owner, 0);
  }
  EXPECT_EQ(used, pool.num_used);
}

TEST(SchedulerView, PlacesNoBlocksIfEachHasACell) {
  Scheduler scheduler({.max_num_seqs = 1, .max_num_batched_tokens = 8}, layout_of(16));
  ASSERT_TRUE(scheduler.add_request(make_viewed_request(0, 8, 8)).ok());
  step(scheduler);
  EXPECT_TRUE(scheduler.view({}).device.placed.empty());
}

}  // namespace
}  // namespace quire
