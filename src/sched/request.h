// The records the scheduler keeps of each request. Owned by Scheduler; engine thread only.
#pragma once

#include <algorithm>
#include <boost/intrusive/list_hook.hpp>
#include <boost/intrusive/set_hook.hpp>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "contract/ids.h"
#include "contract/pooling.h"
#include "contract/sampling_params.h"
#include "kv/kv_manager.h"

namespace quire {

// A request as it comes to the scheduler: tokens and numbers, no text.
struct SchedulerRequest {
  RequestId id = -1;
  std::vector<TokenId> prompt_token_ids;
  SamplingParams sampling;
  std::vector<TokenId> end_token_ids;     // the model's end tokens
  std::optional<PoolingRequest> pooling;  // a vector of the prompt; max_tokens is 0 then
  uint64_t seed = 0;                      // what the samples are drawn from
  double arrival = 0.0;                   // seconds on the clock that schedule() is given
  int32_t priority = 0;
  int64_t client = 0;      // who asks, for fair sharing between clients
  int32_t adapter = 0;     // 0: none
  std::string cache_salt;  // requests with another salt share no cached prefix
};

struct Client;
struct SequenceGroup;

enum class SequenceState : uint8_t {
  kUnborn,   // a sample that will be forked from sample 0
  kWaiting,  // its group waits; it holds nothing, or host blocks
  kRunning,  // in the running list, holds blocks
  kDormant,  // a beam that was dropped: holds no block, a fork may revive it
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
  bool follows = false;    // runs with an empty table until it is forked from the group's leader
  int32_t num_computed_tokens = 0;
  int32_t num_served_tokens = 0;   // the most that ever were computed: beyond it, computing is progress
  int32_t num_planned_tokens = 0;  // its chunk while its group is planned
  int32_t progress_index = -1;     // its entry in the CommitResult being made
  TableId table = -1;              // -1 before birth and after release
  std::vector<TokenId> token_ids;  // prompt, then generated; empty before birth and after release

  int32_t num_tokens() const { return static_cast<int32_t>(token_ids.size()); }
  int32_t num_left() const { return num_tokens() - num_computed_tokens; }
};

// Where a request stands among all: the lower level first, within it the lower place. What a level is depends
// on the policy; a request may take the place of one of a higher level, never of one of its own.
struct Rank {
  int64_t level = 0;
  int64_t place = 0;  // no two requests have the same

  // NOLINTNEXTLINE(modernize-use-nullptr): there is no pointer
  friend auto operator<=>(const Rank&, const Rank&) = default;
};

// One request: what was asked, and its samples. They are admitted and preempted together.
struct SequenceGroup {
  // What every step looks at comes first.
  RequestId id = -1;
  Rank rank;
  Sequence* leader = nullptr;   // see num_followers; with followers only
  Client* client = nullptr;     // kFair
  int64_t quantum_left = 0;     // kMlfq: work units before it sinks a level
  double last_progress = -1.0;  // kMlfq: seconds; -1: not yet seen by schedule()
  int32_t num_prompt_tokens = 0;
  int32_t num_alive = 0;    // samples not over
  int32_t num_held = 0;     // samples born and not released
  int32_t num_waiting = 0;  // samples in the state kWaiting
  int32_t num_running = 0;  // samples in the state kRunning
  int32_t num_seats = 0;    // of max_num_seqs it takes
  // Samples that run again after a preemption share their prompt again: the leader computes it, and the
  // followers are forked from it at the prompt's end.
  int32_t num_followers = 0;
  int32_t num_cached_tokens = 0;  // prompt tokens taken from the prefix cache at the first admission
  bool started = false;           // was admitted once
  bool failed = false;            // the executor could not compute one of its samples
  bool forked = false;            // the samples beyond the first exist (or there are none)
  bool loading = false;           // waits for the disk, outside of the waiting queue
  bool moved = false;             // its rank changed while it runs
  SamplingParams sampling;
  std::optional<PoolingRequest> pooling;
  std::vector<TokenId> end_token_ids;
  std::vector<Sequence> samples;  // [num_sequences], never resized: pointers to them are kept
  int64_t order = 0;              // of arrival
  uint64_t seed = 0;
  double arrival = 0.0;
  int32_t priority = 0;
  int32_t adapter = 0;
  std::string cache_salt;
  boost::intrusive::set_member_hook<> queue_hook;      // in the WaitingQueue
  boost::intrusive::list_member_hook<> patience_hook;  // kMlfq: in the list of those who wait, longest first

  int32_t num_sequences() const { return static_cast<int32_t>(samples.size()); }
  bool beams() const { return sampling.use_beam_search; }
  // Tokens that a sample may generate; an open beam has fewer.
  int32_t max_new_tokens(int32_t max_model_len) const {
    return std::min(sampling.max_tokens, max_model_len - num_prompt_tokens);
  }
};

inline bool served_before(const Sequence& a, const Sequence& b) {
  return a.group != b.group ? a.group->rank < b.group->rank : a.index < b.index;
}

}  // namespace quire
