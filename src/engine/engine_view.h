// The contents of a live view of the engine, as plain data: requests with their times, the blocks of the KV
// cache, and counters. Contains no token and no text. Made on the engine thread, read anywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "contract/request_output.h"
#include "engine/engine_types.h"
#include "sched/scheduler_view.h"

namespace quire {

// A step that computed part of a prompt. Seconds on the engine's clock.
struct PrefillChunk {
  double begin = 0.0;
  double end = 0.0;
  int32_t num_tokens = 0;
};

// A time without progress after a preemption.
struct Pause {
  double begin = 0.0;
  double end = 0.0;  // 0 = it lasts
};

struct RequestProgress {
  RequestTimes times;
  int32_t num_prompt_tokens = 0;
  int32_t num_cached_tokens = 0;
  int64_t num_generated_tokens = 0;  // the sum over all samples
};

// Recorded while the engine is watched; the oldest entries are dropped.
struct RequestHistory {
  std::vector<PrefillChunk> chunks;
  std::vector<Pause> pauses;
};

struct LiveRequest {
  RequestView scheduled;
  RequestProgress progress;
  RequestHistory history;
};

struct EndedRequest {
  RequestId id = -1;
  FinishReason reason = FinishReason::kNone;
  double end = 0.0;
  RequestProgress progress;
  RequestHistory history;
};

struct EngineView {
  double time = 0.0;          // seconds on the clock of RequestTimes
  double make_seconds = 0.0;  // CPU time that the snapshot took on the engine thread
  EngineStats stats;
  int64_t slots_used = 0;           // token slots of used blocks
  int64_t slots_filled = 0;         // those that hold a computed token
  int64_t num_copied_on_write = 0;  // shared blocks, since the start
  int32_t num_disk_blocks = 0;
  int32_t num_cached_disk_blocks = 0;
  int64_t num_requests = 0;
  std::vector<LiveRequest> requests;
  std::vector<EndedRequest> ended;  // since the engine is watched, at most a minute old, oldest first
  PoolView device;
  PoolView host;
};

}  // namespace quire
