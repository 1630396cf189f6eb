// The scheduler's records of a request and its samples. Owned by RequestTable; engine thread only.
#pragma once

#include <algorithm>
#include <boost/intrusive/set_hook.hpp>
#include <compare>
#include <cstdint>
#include <vector>

#include "contract/request.h"
#include "kv/kv_manager.h"

namespace quire {

struct AdapterTurn;
struct Client;
struct SequenceGroup;

enum class SequenceState : uint8_t {
  kPendingFork,  // a sample that will be forked from sample 0
  kWaiting,      // its group waits; it holds no device blocks
  kRunning,      // in the running list, holds device blocks
  kInactive,     // a dropped beam: holds no blocks, a later fork may reactivate it
  kEnded,        // holds nothing
};

// One sample of a request: its tokens, and how many of them are computed.
struct Sequence {
  SequenceGroup* group = nullptr;
  SeqId id = -1;
  int32_t index = 0;  // sample index within the request
  SequenceState state = SequenceState::kPendingFork;
  bool executor_has_state = false;  // the executor keeps a record of it
  bool finished = false;            // no new output follows
  bool suppress_output = false;     // finished by a stop string or an abort: its tokens are not reported
  bool release_pending = false;     // is released at the next commit
  bool in_flight = false;           // part of the plan that is not committed yet
  bool awaits_prompt = false;       // running without blocks until it is forked from group->prompt_sample
  int32_t num_computed_tokens = 0;
  int32_t num_served_tokens = 0;   // the largest num_computed_tokens so far, over all preemptions
  int32_t num_planned_tokens = 0;  // its chunk while its group is planned
  int32_t update_index = -1;       // its entry in the CommitResult that is being made, or -1
  TableId table = -1;              // its block tables; -1 before the fork and after the release
  std::vector<TokenId>
      token_ids;  // prompt, then generated tokens; empty before the fork and after the release

  int32_t num_tokens() const { return static_cast<int32_t>(token_ids.size()); }
  int32_t num_left() const { return num_tokens() - num_computed_tokens; }
};

// Scheduling order: lower levels first, then lower order. A level depends on the policy. A request may
// preempt requests of higher levels, never those of its own.
struct Rank {
  int64_t level = 0;
  int64_t order = 0;  // unique among requests

  // NOLINTNEXTLINE(modernize-use-nullptr): there is no pointer
  friend auto operator<=>(const Rank&, const Rank&) = default;
};

// One request and its samples, which are admitted and preempted together.
struct SequenceGroup {
  // Fields that every step reads come first.
  RequestId id = -1;
  Rank rank;
  // After a preemption the samples share their prompt again: prompt_sample recomputes it, and
  // num_awaiting_prompt samples wait to be forked from it. Null if none wait.
  Sequence* prompt_sample = nullptr;
  Client* client = nullptr;     // kFair
  AdapterTurn* turn = nullptr;  // the record of its adapter; null = the base model
  int64_t quantum_left = 0;     // kMlfq: work units until it is demoted
  int64_t home_level = 0;       // kMlfq: its level unless it is promoted
  int64_t deadline = 0;         // kMlfq: the last step before it has fallen behind
  int64_t last_step = -1;       // kMlfq: the last step in which it made progress
  int32_t num_prompt_tokens = 0;
  int32_t num_unfinished = 0;  // samples that are not finished
  int32_t num_held = 0;        // samples with block tables
  int32_t num_waiting = 0;     // samples in the state kWaiting
  int32_t num_running = 0;     // samples in the state kRunning
  int32_t num_slots = 0;       // slots of max_num_seqs that it takes
  int32_t num_awaiting_prompt = 0;
  int32_t num_cached_tokens = 0;  // prompt tokens taken from the prefix cache at the first admission
  bool started = false;           // was admitted at least once
  bool failed = false;            // the executor could not compute one of its samples
  bool forked = false;            // all samples beyond the first exist, or there are none
  // Set when a beam search did not fit into the pool although nothing else ran: its beams did not share the
  // blocks of the prompt. From then on they are forked from one sample that computes it.
  bool must_share_prompt = false;
  bool loading = false;             // waits for blocks from the disk, outside of the waiting queue
  bool rank_changed = false;        // while it runs: the running list is to be sorted
  bool admitted_early = false;      // while adapters take turns; nothing was planned since
  int64_t num_promised_blocks = 0;  // with admitted_early: free blocks that its admission relies on
  int64_t arrival_order = 0;
  std::vector<Sequence> samples;  // [num_sequences], never resized: pointers to samples are kept
  Request request;                // without prompt_token_ids, which are in samples[0].token_ids
  boost::intrusive::set_member_hook<> queue_hook;       // in the WaitingQueue
  boost::intrusive::set_member_hook<> starvation_hook;  // kMlfq: in FeedbackLevels

  int32_t num_sequences() const { return static_cast<int32_t>(samples.size()); }
  bool uses_beam_search() const { return request.sampling->use_beam_search; }
  // The most tokens that a sample may generate.
  int32_t max_new_tokens(int32_t max_model_len) const {
    return std::min(request.sampling->max_tokens, max_model_len - num_prompt_tokens);
  }
  // The prefix cache is not used where every prompt token has to be computed: for log-probabilities of the
  // prompt, and for pooling over all tokens.
  bool reads_prefix_cache() const {
    const bool pools_all_tokens = request.pooling && request.pooling->all_tokens;
    return !pools_all_tokens && !request.sampling->wants_prompt_logprobs();
  }
};

// Whether the sequence generates: the prompt is computed, or its last token is next. It may have more than
// one token to compute if the executor appended several.
inline bool decodes(const Sequence& sequence) {
  return sequence.num_left() == 1 || sequence.num_computed_tokens >= sequence.group->num_prompt_tokens;
}

inline bool scheduled_before(const Sequence& a, const Sequence& b) {
  return a.group != b.group ? a.group->rank < b.group->rank : a.index < b.index;
}

}  // namespace quire
