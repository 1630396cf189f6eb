// The part of Committer for beam searches.
//
// The beams of a request sample in the same step, so all active beams have the same number of tokens. A
// dropped beam is inactive: it keeps its id and its slot, and a later fork may reactivate it.
#include "sched/committer.h"
#include "sched/sample_lifecycle.h"

namespace quire {

// The child releases its own blocks and continues from the parent.
void Committer::fork_beam(Sequence& parent, Sequence& child) {
  state_.kv.close(child.table);
  child.table = state_.kv.fork(parent.table);
  child.token_ids.assign(parent.token_ids.begin(), parent.token_ids.end());
  child.num_computed_tokens = parent.num_computed_tokens;
  child.num_served_tokens = parent.num_served_tokens;
  if (child.state != SequenceState::kInactive) return;
  reserve_growth(state_, child);
  child.state = SequenceState::kRunning;
  ++child.group->num_running;
  state_.queues.insert_running(child);
}

void Committer::append_to_beam(Sequence& beam, std::span<const SampledToken> tokens) {
  for (const SampledToken& sampled : tokens) beam.token_ids.push_back(sampled.token);
  state_.queues.charge_generated(*beam.group, static_cast<int64_t>(tokens.size()));
}

// It leaves the running list at the end of the commit.
void Committer::drop_beam(Sequence& beam) {
  state_.kv.clear(beam.table);
  beam.token_ids.clear();
  beam.num_computed_tokens = 0;
  beam.state = SequenceState::kInactive;
  --beam.group->num_running;
  state_.requests.update_slots(*beam.group);
  any_dropped_ = true;
}

void Committer::apply_beams(const StepResult& result) {
  for (const BeamResult& beam : result.beams) {
    Sequence* sequence = state_.requests.find_sequence(beam.seq);
    if (sequence == nullptr || sequence->finished || !sequence->group->uses_beam_search()) continue;
    SequenceGroup& group = *sequence->group;
    end_beams(group);
    SequenceUpdate& update = update_of(group.samples.front());
    const bool stopped = !beam.hypotheses.empty() && beam.hypotheses.front().stopped;
    update.finish_reason = stopped ? FinishReason::kStop : FinishReason::kLength;
    update.beam = &beam;
    update.request_finished = true;
  }
}

void Committer::end_beams(SequenceGroup& group) {
  for (Sequence& beam : group.samples) {
    mark_finished(beam);
    if (beam.state == SequenceState::kPendingFork) beam.state = SequenceState::kEnded;
    if (beam.table >= 0) release_at_commit(state_, beam);
  }
}

// After a step in which the beams sampled, each active beam has one token to compute, and none has reached
// the length at which the search ends.
void Committer::check_beams(SequenceGroup& group) {
  if (group.num_unfinished == 0) return;
  if (group.num_running == 0) return fail_group(group, "The executor dropped all beams without a result.");
  const int32_t max_tokens = group.num_prompt_tokens + group.max_new_tokens(state_.config.max_model_len);
  for (const Sequence& beam : group.samples) {
    if (beam.state != SequenceState::kRunning) continue;
    if (beam.num_left() != 1) return fail_group(group, "The executor sampled no token for a beam.");
    if (beam.num_tokens() >= max_tokens)
      return fail_group(group, "The executor did not end the beam search.");
  }
}

}  // namespace quire
