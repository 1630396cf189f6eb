// What a commit does for a beam search. The executor decides which beams go on; here they are tables and
// tokens.
//
// A request's beams draw in the same step, so all open ones have the same number of tokens. A dropped beam is
// dormant: it keeps its name and its seat, and a later fork onto it revives it.
#include "sched/scheduler.h"

namespace quire {

// The beam gives up what it had and goes on from another one.
void Scheduler::fork_beam(Sequence& parent, Sequence& child) {
  kv_.close(child.table);
  child.table = kv_.fork(parent.table);
  child.token_ids.assign(parent.token_ids.begin(), parent.token_ids.end());
  child.num_computed_tokens = parent.num_computed_tokens;
  child.num_served_tokens = parent.num_served_tokens;
  if (child.state != SequenceState::kDormant) return;
  reserve_growth(child);
  child.state = SequenceState::kRunning;
  ++child.group->num_running;
  insert_running(child);
}

void Scheduler::append_to_beam(Sequence& beam, std::span<const SampledToken> tokens) {
  for (const SampledToken& sampled : tokens) beam.token_ids.push_back(sampled.token);
  if (config_.policy == SchedulingPolicy::kFair) {
    ClientTable::charge(*beam.group, ClientTable::kOutputWeight * static_cast<int64_t>(tokens.size()));
  }
}

// It leaves running_ at the end of the commit.
void Scheduler::drop_beam(Sequence& beam) {
  kv_.clear(beam.table);
  beam.token_ids.clear();
  beam.num_computed_tokens = 0;
  beam.state = SequenceState::kDormant;
  --beam.group->num_running;
  update_seats(*beam.group);
  any_dropped_ = true;
}

void Scheduler::apply_beams(const StepResult& result) {
  for (const BeamResult& beam : result.beams) {
    Sequence* sequence = find_sequence(beam.seq);
    if (sequence == nullptr || sequence->over || !sequence->group->beams()) continue;
    SequenceGroup& group = *sequence->group;
    end_beams(group);
    SequenceProgress& progress = progress_of(group.samples.front());
    const bool stopped = !beam.hypotheses.empty() && beam.hypotheses.front().stopped;
    progress.finish_reason = stopped ? FinishReason::kStop : FinishReason::kLength;
    progress.beam = &beam;
    progress.request_finished = true;
  }
}

void Scheduler::end_beams(SequenceGroup& group) {
  for (Sequence& beam : group.samples) {
    mark_over(beam);
    if (beam.state == SequenceState::kUnborn) beam.state = SequenceState::kEnded;
    if (beam.table >= 0) release_at_commit(beam);
  }
}

// Behind a step in which the beams drew: those that are open have one token to compute, and none has as many
// as the search may generate.
void Scheduler::check_beams(SequenceGroup& group) {
  if (group.num_alive == 0) return;
  if (group.num_running == 0) return fail_group(group, "The executor dropped all beams without a result.");
  const int32_t max_tokens = group.num_prompt_tokens + group.max_new_tokens(config_.max_model_len);
  for (const Sequence& beam : group.samples) {
    if (beam.state != SequenceState::kRunning) continue;
    if (beam.num_left() != 1) return fail_group(group, "The executor drew no token for a beam.");
    if (beam.num_tokens() >= max_tokens) return fail_group(group, "The executor did not end the search.");
  }
}

}  // namespace quire
