#include "sched/sample_lifecycle.h"

#include <algorithm>

namespace quire {

namespace {

// Ends the sample's part in queues and counters, except for the running list.
void leave_queues(SchedulerState& state, Sequence& sequence) {
  SequenceGroup& group = *sequence.group;
  const SequenceState before = sequence.state;
  sequence.state = SequenceState::kEnded;
  if (before == SequenceState::kWaiting) {
    --state.requests.num_waiting;
    if (--group.num_waiting > 0) return;
    if (group.loading) {
      state.queues.end_loading(group);
    } else {
      state.queues.remove_waiting(group);
    }
  } else if (before == SequenceState::kRunning) {
    if (--group.num_running == 0) group.admitted_early = false;
    state.requests.update_slots(group);
    if (sequence.awaits_prompt) --group.num_awaiting_prompt;
    sequence.awaits_prompt = false;
    if (group.prompt_sample == &sequence) replace_prompt_sample(group);
  }
}

void release(SchedulerState& state, Sequence& sequence) {
  state.kv.close(sequence.table);
  sequence.table = -1;
  state.requests.remove_sequence(sequence);
  if (sequence.executor_has_state) state.finished_seqs.push_back(sequence.id);
  std::vector<TokenId>().swap(sequence.token_ids);
  --sequence.group->num_held;
}

}  // namespace

void mark_finished(Sequence& sequence) {
  if (sequence.finished) return;
  sequence.finished = true;
  --sequence.group->num_unfinished;
}

void end_from_outside(SchedulerState& state, Sequence& sequence) {
  sequence.suppress_output = true;
  mark_finished(sequence);
  if (sequence.state == SequenceState::kPendingFork) sequence.state = SequenceState::kEnded;
  if (sequence.state == SequenceState::kEnded || sequence.release_pending) return;
  if (sequence.in_flight) {
    release_at_commit(state, sequence);
    return;
  }
  const bool was_running = sequence.state == SequenceState::kRunning;
  leave_queues(state, sequence);
  if (was_running) state.queues.erase_running(sequence);
  release(state, sequence);
}

void release_at_commit(SchedulerState& state, Sequence& sequence) {
  if (sequence.release_pending) return;
  sequence.release_pending = true;
  state.releasing.push_back(&sequence);
}

void release_marked(SchedulerState& state) {
  if (state.releasing.empty()) return;
  for (Sequence* sequence : state.releasing) leave_queues(state, *sequence);
  state.queues.erase_running(SequenceState::kEnded);
  for (Sequence* sequence : state.releasing) {
    SequenceGroup& group = *sequence->group;
    sequence->release_pending = false;
    release(state, *sequence);
    erase_if_finished(state, group);
  }
  state.releasing.clear();
}

void erase_if_finished(SchedulerState& state, SequenceGroup& group) {
  if (group.num_unfinished > 0 || group.num_held > 0) return;
  ++state.totals.num_finished_requests;
  state.queues.leave(group);
  state.adapters.leave(group, state.totals.num_steps);
  state.requests.erase(group);
}

void reserve_growth(SchedulerState& state, Sequence& sequence) {
  const SequenceGroup& group = *sequence.group;
  const int64_t final_size = std::min<int64_t>(
      int64_t{group.num_prompt_tokens} + group.request.sampling->max_tokens, state.config.max_model_len);
  sequence.token_ids.reserve(static_cast<size_t>(final_size));
  state.kv.reserve(sequence.table, final_size);
}

void fork_awaiting(SchedulerState& state, SequenceGroup& group) {
  for (Sequence& sample : group.samples) {
    if (!sample.awaits_prompt) continue;
    sample.awaits_prompt = false;
    state.kv.close(sample.table);
    sample.table = state.kv.fork(group.prompt_sample->table);
    state.kv.resend(sample.table);
    sample.num_computed_tokens = group.prompt_sample->num_computed_tokens;
    reserve_growth(state, sample);
  }
  group.num_awaiting_prompt = 0;
  group.prompt_sample = nullptr;
}

void replace_prompt_sample(SequenceGroup& group) {
  group.prompt_sample = nullptr;
  if (group.num_awaiting_prompt == 0) return;
  for (Sequence& sample : group.samples) {
    if (!sample.awaits_prompt) continue;
    sample.awaits_prompt = false;
    --group.num_awaiting_prompt;
    if (group.num_awaiting_prompt > 0) group.prompt_sample = &sample;
    return;
  }
}

}  // namespace quire
