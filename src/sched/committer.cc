#include "sched/committer.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"
#include "sched/repetition.h"
#include "sched/sample_lifecycle.h"

namespace quire {

const CommitResult& Committer::commit(StepState& step, const StepResult& result) {
  begin(step, result);
  for (const DiskOutcome& outcome : result.disk_outcomes) state_.kv.finish_disk_io(outcome);
  apply_failures(result);
  apply_computed(step);
  apply_forks(step, result);
  apply_sampled(step, result);
  apply_prompt_logprobs(result);
  apply_pooled(result);
  apply_dropped(result);
  apply_beams(result);
  fail_without_token(step);
  count_step(step);
  finish(step);
  return result_;
}

void Committer::begin(StepState& step, const StepResult& result) {
  if (result.step != step.plan.step) {
    throw Error(
        cat("the executor returned the result of step ", result.step, ", expected step ", step.plan.step));
  }
  result_.updates.clear();
  result_.started.clear();
  result_.started.swap(state_.started);
  started_cached_tokens_.clear();
  for (const RequestId request : result_.started) {
    const SequenceGroup* group = state_.requests.find_group(request);
    started_cached_tokens_.push_back(group == nullptr ? 0 : group->num_cached_tokens);
  }
  forked_.clear();
  step.uncommitted = false;
}

int32_t Committer::num_cached_tokens(RequestId request) const {
  const auto started = std::find(result_.started.begin(), result_.started.end(), request);
  if (started == result_.started.end()) return 0;
  return started_cached_tokens_[static_cast<size_t>(started - result_.started.begin())];
}

void Committer::apply_failures(const StepResult& result) {
  for (const SequenceFailure& failure : result.failures) {
    Sequence* sequence = state_.requests.find_sequence(failure.seq);
    if (sequence != nullptr) fail_group(*sequence->group, failure.message);
  }
}

void Committer::fail_group(SequenceGroup& group, const std::string& message) {
  group.failed = true;
  if (group.uses_beam_search()) {
    const bool unfinished = group.num_unfinished > 0;
    end_beams(group);
    if (unfinished) {
      SequenceUpdate& update = update_of(group.samples.front());
      update.finish_reason = FinishReason::kError;
      update.error = message;
      update.request_finished = true;
    }
    return;
  }
  for (Sequence& sample : group.samples) {
    if (!sample.finished) finish_sample(sample, FinishReason::kError).error = message;
    if (sample.table >= 0) release_at_commit(state_, sample);
  }
}

void Committer::apply_computed(const StepState& step) {
  for (size_t i = 0; i < step.in_flight.size(); ++i) {
    Sequence& sequence = *step.in_flight[i];
    SequenceGroup& group = *sequence.group;
    // The blocks of a failed sequence must not be cached.
    if (group.failed) continue;
    const int32_t num_computed_before = sequence.num_computed_tokens;
    sequence.num_computed_tokens += step.plan.scheduled[i].num_new_tokens;
    state_.kv.commit(sequence.table, sequence.token_ids, sequence.num_computed_tokens);
    state_.queues.charge_computed(sequence, num_computed_before, state_.totals.num_steps);
    if (group.num_awaiting_prompt > 0 && group.prompt_sample == &sequence &&
        sequence.num_computed_tokens == group.num_prompt_tokens) {
      fork_awaiting(state_, group);
    }
    const bool only_prompt =
        group.request.sampling->max_tokens == 0 && sequence.num_computed_tokens == sequence.num_tokens();
    if (!only_prompt) continue;
    for (Sequence& sample : group.samples) {
      if (!sample.finished) finish_sample(sample, FinishReason::kLength);
    }
    release_at_commit(state_, sequence);
  }
  // Before forked samples are inserted in scheduling order.
  state_.queues.sort_running();
}

void Committer::apply_forks(const StepState& step, const StepResult& result) {
  for (const SequenceFork& fork : result.forks) {
    Sequence* parent = state_.requests.find_sequence(fork.parent);
    Sequence* child = nullptr;
    if (parent != nullptr) {
      std::vector<Sequence>& samples = parent->group->samples;
      const SeqId index = fork.child - samples.front().id;
      if (index >= 0 && index < static_cast<SeqId>(samples.size()))
        child = &samples[static_cast<size_t>(index)];
    }
    if (child != nullptr && child->state == SequenceState::kPendingFork) {
      fork_sample(*parent, *child);
    } else if (child != nullptr && child != parent && parent->group->uses_beam_search() && !child->finished &&
               parent->state == SequenceState::kRunning) {
      fork_beam(*parent, *child);
    } else if (child == nullptr || !child->executor_has_state) {
      // The request ended meanwhile, but the executor has forked the sample.
      state_.finished_seqs.push_back(fork.child);
      if (child != nullptr) child->executor_has_state = true;
    }
  }
  for (size_t i = 0; i < step.in_flight.size(); ++i) {
    Sequence& sequence = *step.in_flight[i];
    if (step.plan.scheduled[i].sample && !sequence.group->forked && !sequence.group->failed)
      close_fork(sequence);
  }
}

void Committer::fork_sample(Sequence& parent, Sequence& child) {
  child.token_ids = parent.token_ids;
  child.num_computed_tokens = parent.num_computed_tokens;
  child.table = state_.kv.fork(parent.table);
  reserve_growth(state_, child);
  child.num_served_tokens = parent.num_served_tokens;
  child.executor_has_state = true;
  child.state = SequenceState::kRunning;
  state_.requests.add_sequence(child);
  ++child.group->num_held;
  ++child.group->num_running;
  state_.queues.insert_running(child);
  forked_.push_back(&child);
}

// From here on the samples are independent, and each takes a slot of its own.
void Committer::close_fork(Sequence& parent) {
  SequenceGroup& group = *parent.group;
  group.forked = true;
  state_.requests.update_slots(group);
  // Beams may be forked later.
  if (group.uses_beam_search()) return;
  for (Sequence& sample : group.samples) {
    if (sample.state == SequenceState::kPendingFork && !sample.finished) {
      finish_sample(sample, FinishReason::kError).error = "The executor did not fork the sample.";
    }
  }
  if (parent.suppress_output) release_at_commit(state_, parent);
}

void Committer::apply_sampled(const StepState& step, const StepResult& result) {
  const std::span<const SampledToken> sampled(result.sampled);
  const std::vector<Sequence*>& in_flight = step.in_flight;
  // `sampled` is in the order of the plan, with forked samples in between and beams in an order of their own.
  size_t cursor = 0;  // in the plan
  for (size_t begin = 0; begin < sampled.size();) {
    size_t end = begin + 1;
    while (end < sampled.size() && sampled[end].seq == sampled[begin].seq) ++end;
    while (cursor < in_flight.size() &&
           (!step.plan.scheduled[cursor].sample || in_flight[cursor]->group->uses_beam_search())) {
      ++cursor;
    }
    Sequence* sequence = nullptr;
    if (cursor < in_flight.size() && in_flight[cursor]->id == sampled[begin].seq) {
      sequence = in_flight[cursor++];
    } else {
      sequence = state_.requests.find_sequence(sampled[begin].seq);
    }
    if (sequence != nullptr) append_tokens(*sequence, sampled.subspan(begin, end - begin));
    begin = end;
  }
}

void Committer::append_tokens(Sequence& sequence, std::span<const SampledToken> tokens) {
  if (sequence.finished) return;
  if (sequence.group->uses_beam_search()) {
    append_to_beam(sequence, tokens);
    return;
  }
  size_t count = 0;
  FinishReason reason = FinishReason::kNone;
  std::optional<TokenId> stop_token;
  while (count < tokens.size() && reason == FinishReason::kNone) {
    const TokenId token = tokens[count++].token;
    sequence.token_ids.push_back(token);
    reason = check_end(sequence, token, stop_token);
    if (reason != FinishReason::kStop && tokens[count - 1].completes) reason = FinishReason::kStop;
  }
  state_.queues.charge_generated(*sequence.group, static_cast<int64_t>(count));
  SequenceUpdate& update =
      reason == FinishReason::kNone ? update_of(sequence) : finish_sample(sequence, reason);
  update.sampled = tokens.first(count);
  update.stop_token = stop_token;
}

FinishReason Committer::check_end(const Sequence& sequence, TokenId token,
                                  std::optional<TokenId>& stop_token) const {
  const SequenceGroup& group = *sequence.group;
  const SamplingParams& sampling = *group.request.sampling;
  const auto contains = [token](const std::vector<TokenId>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  const int32_t num_generated = sequence.num_tokens() - group.num_prompt_tokens;
  // The sampler masks end and stop tokens for the first min_tokens tokens.
  if (num_generated > sampling.min_tokens) {
    if (!sampling.ignore_eos && contains(group.request.end_token_ids)) return FinishReason::kStop;
    if (contains(sampling.stop_token_ids)) {
      stop_token = token;
      return FinishReason::kStop;
    }
  }
  const bool full =
      num_generated >= sampling.max_tokens || sequence.num_tokens() >= state_.config.max_model_len;
  if (full) return FinishReason::kLength;
  const bool repeats =
      num_generated >= sampling.min_tokens &&
      ends_in_repetition(std::span(sequence.token_ids).last(static_cast<size_t>(num_generated)),
                         sampling.repetition_detection);
  return repeats ? FinishReason::kRepetition : FinishReason::kNone;
}

void Committer::apply_prompt_logprobs(const StepResult& result) {
  for (const PromptLogprobs& logprobs : result.prompt_logprobs) {
    Sequence* sequence = state_.requests.find_sequence(logprobs.seq);
    if (sequence == nullptr || sequence->suppress_output) continue;
    // All updates of a beam search belong to sample 0, also if another beam recomputes the prompt.
    const bool beams = sequence->group->uses_beam_search();
    if (beams && sequence->group->num_unfinished == 0) continue;
    update_of(beams ? sequence->group->samples.front() : *sequence).prompt_logprobs = &logprobs;
  }
}

void Committer::apply_pooled(const StepResult& result) {
  for (const PooledVector& vector : result.pooled) {
    Sequence* sequence = state_.requests.find_sequence(vector.seq);
    if (sequence != nullptr && !sequence->suppress_output && !sequence->group->failed)
      update_of(*sequence).pooled = &vector;
  }
}

void Committer::apply_dropped(const StepResult& result) {
  for (const SeqId seq : result.dropped) {
    Sequence* sequence = state_.requests.find_sequence(seq);
    if (sequence == nullptr || sequence->finished) continue;
    if (sequence->group->uses_beam_search()) {
      if (sequence->state == SequenceState::kRunning) drop_beam(*sequence);
    } else {
      finish_sample(*sequence, FinishReason::kAbort);
    }
  }
}

// Every sample that was to sample has a new token now, or its request fails.
void Committer::fail_without_token(const StepState& step) {
  const auto check = [this](Sequence& sequence) {
    if (sequence.finished || sequence.num_tokens() > sequence.num_computed_tokens) return;
    fail_group(*sequence.group, "The executor sampled no token for the sequence.");
  };
  for (size_t i = 0; i < step.in_flight.size(); ++i) {
    if (!step.plan.scheduled[i].sample) continue;
    SequenceGroup& group = *step.in_flight[i]->group;
    if (!group.uses_beam_search()) {
      check(*step.in_flight[i]);
    } else if (i == 0 || step.in_flight[i - 1]->group != &group) {
      // Once per search: its beams are adjacent.
      check_beams(group);
    }
  }
  for (Sequence* sequence : forked_) {
    if (!sequence->group->uses_beam_search()) check(*sequence);
  }
}

SequenceUpdate& Committer::update_of(Sequence& sequence) {
  if (sequence.update_index < 0) {
    sequence.update_index = static_cast<int32_t>(result_.updates.size());
    updated_.push_back(&sequence);
    SequenceUpdate& update = result_.updates.emplace_back();
    update.request = sequence.group->id;
    update.index = sequence.index;
    update.seq = sequence.id;
  }
  return result_.updates[static_cast<size_t>(sequence.update_index)];
}

SequenceUpdate& Committer::finish_sample(Sequence& sequence, FinishReason reason) {
  mark_finished(sequence);
  if (sequence.state == SequenceState::kPendingFork) sequence.state = SequenceState::kEnded;
  if (sequence.table >= 0) release_at_commit(state_, sequence);
  SequenceUpdate& update = update_of(sequence);
  update.finish_reason = reason;
  update.request_finished = sequence.group->num_unfinished == 0;
  return update;
}

void Committer::count_step(const StepState& step) {
  if (step.plan.scheduled.empty()) return;
  ++state_.totals.num_steps;
  state_.totals.num_computed_tokens += step.plan.num_tokens;
  const KvStats kv = state_.kv.stats();
  wasted_slots_ += static_cast<double>(kv.slots_used - kv.slots_filled);
  held_slots_ += static_cast<double>(kv.slots_used);
}

void Committer::finish(StepState& step) {
  for (Sequence* sequence : step.in_flight) sequence->in_flight = false;
  for (Sequence* sequence : updated_) sequence->update_index = -1;
  updated_.clear();
  step.in_flight.clear();
  if (any_dropped_) state_.queues.erase_running(SequenceState::kInactive);
  any_dropped_ = false;
  release_marked(state_);
}

}  // namespace quire
