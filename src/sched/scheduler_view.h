// A snapshot of the requests and of the KV blocks, as plain data, for displays. Contains no token and no
// text.
#pragma once

#include <cstdint>
#include <vector>

#include "contract/ids.h"

namespace quire {

struct SchedulerState;

enum class RequestPhase : uint8_t {
  kQueued,     // waits for its first admission
  kLoading,    // waits for blocks from the disk
  kPrefill,    // computes more than one known token per step
  kDecode,     // computes one token per step
  kPreempted,  // waits again; its blocks are freed or swapped out
};

struct RequestView {
  RequestId id = -1;
  RequestPhase phase = RequestPhase::kQueued;
  bool swapped = false;       // its blocks are in the host pool
  int32_t num_sequences = 0;  // samples or beams
  int32_t num_prompt_tokens = 0;
  int32_t num_cached_tokens = 0;    // prompt tokens taken from the prefix cache at the first admission
  int32_t num_computed_tokens = 0;  // the largest number of its samples
  int32_t num_blocks = 0;           // entries of its block tables; shared blocks count for each table
};

// Consecutive blocks of a pool that are drawn as one.
struct BlockCell {
  int32_t owner = -1;      // index into SchedulerView::requests of one request that holds a block; -1 = none
  int32_t num_used = 0;    // blocks with references
  int32_t num_cached = 0;  // blocks without references, with content in the prefix cache
  int32_t max_refs = 0;    // block tables that hold the most shared block
  int32_t filled_slots = 0;  // slots of the used blocks that hold a computed token
};

// A cell at its place in the pool: it stands for the blocks from `index` times the number of blocks per cell
// on.
struct PlacedCell {
  int32_t index = 0;
  BlockCell cell;
};

struct PoolView {
  int32_t num_blocks = 0;  // 0 = there is no such pool
  int32_t num_used = 0;
  int32_t num_cached = 0;
  int32_t num_shared = 0;  // blocks in more than one block table
  int32_t blocks_per_cell = 1;
  std::vector<BlockCell> cells;  // the whole pool; the last one may stand for fewer blocks
  // The occupied blocks alone, if a cell above stands for several blocks: in a large pool they would be lost.
  // One block per cell, or more if the used blocks need too many cells. Cached blocks are included
  // while there are few.
  int32_t blocks_per_placed = 1;
  std::vector<PlacedCell> placed;  // in the order of the pool
};

struct SchedulerView {
  int64_t num_requests = 0;           // including those that are left out
  std::vector<RequestView> requests;  // running ones first, then by id
  PoolView device;
  PoolView host;
};

struct SchedulerViewLimits {
  int32_t max_requests = 512;
  int32_t max_cells = 4096;       // per pool, for the whole pool and for its occupied blocks
  int32_t max_with_cached = 512;  // occupied blocks up to which cached ones are included
};

// O(requests + blocks).
SchedulerView make_scheduler_view(const SchedulerState& state, const SchedulerViewLimits& limits);

}  // namespace quire
