// The records the scheduler keeps of each request. Owned by Scheduler; engine thread only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contract/ids.h"
#include "contract/sampling_params.h"
#include "kv/kv_manager.h"

namespace quire {

// A request as it comes to the scheduler: tokens and numbers, no text.
struct SchedulerRequest {
  RequestId id = -1;
  std::vector<TokenId> prompt_token_ids;
  SamplingParams sampling;
  std::vector<TokenId> end_token_ids;  // the model's end tokens
  uint64_t seed = 0;                   // what the samples are drawn from
  double arrival = 0.0;                // seconds on the monotonic clock
  int32_t priority = 0;
  int64_t client = 0;      // who asks, for fair sharing between clients
  int32_t adapter = 0;     // 0: none
  std::string cache_salt;  // requests with another salt share no cached prefix
};

struct SequenceGroup;

enum class SequenceState : uint8_t {
  kUnborn,   // a sample that will be forked from sample 0
  kWaiting,  // in the waiting queue, holds no block
  kRunning,  // in the running list, holds blocks
  kEnded,    // holds nothing
};

// One sample of a request: its tokens, and how far they are computed.
struct Sequence {
  SequenceGroup* group = nullptr;
  SeqId id = -1;
  int32_t index = 0;  // which sample of the request
  SequenceState state = SequenceState::kUnborn;
  bool known = false;      // the executor keeps state for it
  bool over = false;       // its text is at an end: no news of it follow
  bool muted = false;      // over because someone outside said so
  bool ending = false;     // stands in Scheduler::ending_, is released at the next commit
  bool in_flight = false;  // stands in the plan that is not committed yet
  int32_t num_computed_tokens = 0;
  int32_t progress_index = -1;     // its entry in the CommitResult being made
  TableId table = -1;              // -1 before birth and after release
  std::vector<TokenId> token_ids;  // prompt, then generated; empty before birth and after release
  Sequence* prev = nullptr;        // in the waiting queue
  Sequence* next = nullptr;

  int32_t num_tokens() const { return static_cast<int32_t>(token_ids.size()); }
};

// One request: what was asked, and its samples.
struct SequenceGroup {
  RequestId id = -1;
  int64_t order = 0;  // first come, first served
  SamplingParams sampling;
  std::vector<TokenId> end_token_ids;
  uint64_t seed = 0;
  double arrival = 0.0;
  int32_t priority = 0;
  int32_t adapter = 0;
  std::string cache_salt;
  int32_t num_prompt_tokens = 0;
  int32_t num_cached_tokens = 0;  // prompt tokens taken from the prefix cache at the first admission
  bool started = false;           // was admitted once
  bool failed = false;            // the executor could not compute one of its samples
  bool forked = false;            // the samples beyond the first exist (or there are none)
  int32_t num_alive = 0;          // samples not over
  int32_t num_held = 0;           // samples born and not released
  std::vector<Sequence> samples;  // [n], never resized: pointers to them are kept
};

// First come first served: true when `a` is served before `b`.
inline bool served_before(const Sequence& a, const Sequence& b) {
  return a.group->order != b.group->order ? a.group->order < b.group->order : a.index < b.index;
}

}  // namespace quire
