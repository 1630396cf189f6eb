// The end of samples and requests, and the prompt that samples share. Functions on the shared records; engine
// thread only.
//
// A sample is `finished` once no new output follows. Its blocks are released when no plan uses it: at once,
// or at the end of the next commit.
#pragma once

#include "sched/scheduler_state.h"

namespace quire {

void mark_finished(Sequence& sequence);

// Finishes a sample on behalf of the client: a stop string or an abort.
void end_from_outside(SchedulerState& state, Sequence& sequence);

// Releases the sample at the end of the next commit.
void release_at_commit(SchedulerState& state, Sequence& sequence);

// Releases all samples that were marked by release_at_commit().
void release_marked(SchedulerState& state);

// Erases the record of a request that is finished and holds nothing.
void erase_if_finished(SchedulerState& state, SequenceGroup& group);

// Reserves memory for the final length, so that a running sequence allocates nothing from step to step.
void reserve_growth(SchedulerState& state, Sequence& sequence);

// The prompt sample has computed the prompt: forks the samples that wait for it.
void fork_awaiting(SchedulerState& state, SequenceGroup& group);

// The prompt sample is gone before it computed the prompt: the first of the waiting samples takes over.
void replace_prompt_sample(SequenceGroup& group);

}  // namespace quire
