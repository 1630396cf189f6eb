// Admits waiting requests: checks that slots of max_num_seqs and blocks suffice for their samples, and starts
// them from the host pool or the prefix cache. Requests whose prefix is on the disk wait for it outside of
// the queue, so that others pass them.
//
// Owned by Scheduler; engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "sched/preemption.h"
#include "sched/scheduler_state.h"

namespace quire {

class Admission {
 public:
  Admission(SchedulerState& state, Preemption& preemption) : state_(state), preemption_(preemption) {}

  // Returns requests to the waiting queue once their blocks have arrived from the disk.
  void requeue_loaded();

  // Preempts running requests for waiting ones of lower levels, and admits these. Call before anything is
  // scheduled.
  void preempt_for_priority(StepState& step);

  // Admits the next waiting request. Returns the first of its admitted samples, which are then in the running
  // list; null if none can be admitted in this step. While adapters take turns, requests are admitted early:
  // they take part in the turns, and wait in the running list until tokens are left for them.
  const Sequence* admit_next(StepState& step);

  // Gives a request that was admitted early the part of its prompt that was computed for others since.
  void renew_prefix(SequenceGroup& group, StepState& step);

 private:
  bool begin_loading(SequenceGroup& group, StepState& step);
  size_t num_admissible(SequenceGroup& group, const StepState& step, int32_t max_chunk);
  bool preemption_would_suffice(const SequenceGroup& group, const StepState& step);
  void admit(SequenceGroup& group, size_t count, StepState& step);
  void start_sample(Sequence& sequence, bool shares_prompt, StepState& step);
  void start_from_cache(Sequence& sequence, StepState& step);
  void note_first_admission(SequenceGroup& group);

  void find_prefix(const Sequence& sequence);
  bool prompt_cached(const SequenceGroup& group) const;
  int32_t num_shared_prompt_tokens(const SequenceGroup& group) const;
  int64_t blocks_to_grow(const Sequence& sequence, int32_t num_tokens);
  int64_t blocks_to_swap_in(const SequenceGroup& group);

  SchedulerState& state_;
  Preemption& preemption_;
  PrefixMatch match_;                       // the result of find_prefix()
  std::vector<Sequence*> admission_batch_;  // samples that num_admissible() considered, swapped ones first
  std::vector<TableId> swapped_tables_;     // tables of the swapped ones
  PrefixMatch grown_match_;                 // scratch of blocks_to_grow()
  int64_t blocks_to_admit_ = 0;             // blocks for admission_batch_
};

}  // namespace quire
