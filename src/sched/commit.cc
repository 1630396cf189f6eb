// commit(): what the executor did becomes what is known.
#include <algorithm>

#include "base/strings.h"
#include "sched/scheduler.h"

namespace quire {

const CommitResult& Scheduler::commit(const StepResult& result) {
  begin_commit(result);
  finish_disk_io(result.disk_outcomes);
  apply_failures(result);
  apply_computed();
  apply_forks(result);
  apply_sampled(result);
  apply_prompt_logprobs(result);
  apply_pooled(result);
  apply_dropped(result);
  apply_beams(result);
  fail_tokenless();
  count_step();
  release_ending();
  return commit_;
}

void Scheduler::begin_commit(const StepResult& result) {
  if (result.step != plan_.step) {
    throw Error(cat("The executor answered for step ", result.step, ", planned was step ", plan_.step, "."));
  }
  commit_.progress.clear();
  commit_.started.clear();
  commit_.started.swap(started_);
  started_cached_tokens_.clear();
  for (const RequestId request : commit_.started) {
    const auto it = groups_.find(request);
    started_cached_tokens_.push_back(it == groups_.end() ? 0 : it->second->num_cached_tokens);
  }
  born_.clear();
  uncommitted_ = false;
}

void Scheduler::finish_disk_io(std::span<const DiskOutcome> outcomes) {
  for (const DiskOutcome& outcome : outcomes) kv_.finish_disk_io(outcome);
}

void Scheduler::apply_failures(const StepResult& result) {
  for (const SequenceFailure& failure : result.failures) {
    Sequence* sequence = find_sequence(failure.seq);
    if (sequence != nullptr) fail_group(*sequence->group, failure.message);
  }
}

void Scheduler::fail_group(SequenceGroup& group, const std::string& message) {
  group.failed = true;
  if (group.beams()) {
    const bool open = group.num_alive > 0;
    end_beams(group);
    if (open) {
      SequenceProgress& progress = progress_of(group.samples.front());
      progress.finish_reason = FinishReason::kError;
      progress.error = message;
      progress.request_finished = true;
    }
    return;
  }
  for (Sequence& sample : group.samples) {
    if (!sample.over) finish(sample, FinishReason::kError).error = message;
    if (sample.table >= 0) release_at_commit(sample);
  }
}

void Scheduler::apply_computed() {
  for (size_t i = 0; i < in_flight_.size(); ++i) {
    Sequence& sequence = *in_flight_[i];
    // What a failed sequence left in its blocks is not to be found by others.
    if (sequence.group->failed) continue;
    const int32_t num_computed_before = sequence.num_computed_tokens;
    sequence.num_computed_tokens += plan_.scheduled[i].num_new_tokens;
    kv_.commit(sequence.table, sequence.token_ids, sequence.num_computed_tokens);
    SequenceGroup& group = *sequence.group;
    if (config_.policy == SchedulingPolicy::kMlfq) charge_computed(sequence, num_computed_before);
    if (group.num_followers > 0 && group.leader == &sequence &&
        sequence.num_computed_tokens == group.num_prompt_tokens) {
      fork_followers(group);
    }
    const bool scored =
        group.sampling.max_tokens == 0 && sequence.num_computed_tokens == sequence.num_tokens();
    if (!scored) continue;
    for (Sequence& sample : group.samples) {
      if (!sample.over) finish(sample, FinishReason::kLength);
    }
    release_at_commit(sequence);
  }
  // Before forks are inserted where the order says.
  sort_moved();
}

void Scheduler::apply_forks(const StepResult& result) {
  for (const SequenceFork& fork : result.forks) {
    Sequence* parent = find_sequence(fork.parent);
    Sequence* child = nullptr;
    if (parent != nullptr) {
      std::vector<Sequence>& samples = parent->group->samples;
      const SeqId index = fork.child - samples.front().id;
      if (index >= 0 && index < static_cast<SeqId>(samples.size()))
        child = &samples[static_cast<size_t>(index)];
    }
    if (child != nullptr && child->state == SequenceState::kUnborn) {
      fork_sample(*parent, *child);
    } else if (child != nullptr && child != parent && parent->group->beams() && !child->over &&
               parent->state == SequenceState::kRunning) {
      fork_beam(*parent, *child);
    } else if (child == nullptr || !child->known) {
      // Its request ended meanwhile; the executor made it nevertheless.
      to_forget_.push_back(fork.child);
      if (child != nullptr) child->known = true;
    }
  }
  for (size_t i = 0; i < in_flight_.size(); ++i) {
    Sequence& sequence = *in_flight_[i];
    if (plan_.scheduled[i].sample && !sequence.group->forked && !sequence.group->failed) close_fork(sequence);
  }
}

void Scheduler::fork_sample(Sequence& parent, Sequence& child) {
  child.token_ids = parent.token_ids;
  child.num_computed_tokens = parent.num_computed_tokens;
  child.table = kv_.fork(parent.table);
  reserve_growth(child);
  child.num_served_tokens = parent.num_served_tokens;
  child.known = true;
  child.state = SequenceState::kRunning;
  sequences_.emplace(child.id, &child);
  ++child.group->num_held;
  ++child.group->num_running;
  insert_running(child);
  born_.push_back(&child);
}

// From here on each sample goes its own way and has its own seat.
void Scheduler::close_fork(Sequence& parent) {
  SequenceGroup& group = *parent.group;
  group.forked = true;
  update_seats(group);
  // Beams may be born later.
  if (group.beams()) return;
  for (Sequence& sample : group.samples) {
    if (sample.state == SequenceState::kUnborn && !sample.over) {
      finish(sample, FinishReason::kError).error = "The executor did not make the sample.";
    }
  }
  if (parent.muted) release_at_commit(parent);
}

void Scheduler::apply_sampled(const StepResult& result) {
  const std::span<const SampledToken> sampled(result.sampled);
  size_t cursor = 0;  // in the plan, whose order `sampled` has; forked samples stand in between
  for (size_t begin = 0; begin < sampled.size();) {
    size_t end = begin + 1;
    while (end < sampled.size() && sampled[end].seq == sampled[begin].seq) ++end;
    // Beams come in an order of their own.
    while (cursor < in_flight_.size() &&
           (!plan_.scheduled[cursor].sample || in_flight_[cursor]->group->beams())) {
      ++cursor;
    }
    Sequence* sequence = nullptr;
    if (cursor < in_flight_.size() && in_flight_[cursor]->id == sampled[begin].seq) {
      sequence = in_flight_[cursor++];
    } else {
      sequence = find_sequence(sampled[begin].seq);
    }
    if (sequence != nullptr) append_tokens(*sequence, sampled.subspan(begin, end - begin));
    begin = end;
  }
}

void Scheduler::append_tokens(Sequence& sequence, std::span<const SampledToken> tokens) {
  if (sequence.over) return;
  if (sequence.group->beams()) {
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
  }
  if (config_.policy == SchedulingPolicy::kFair) {
    ClientTable::charge(*sequence.group, ClientTable::kOutputWeight * static_cast<int64_t>(count));
  }
  SequenceProgress& progress =
      reason == FinishReason::kNone ? progress_of(sequence) : finish(sequence, reason);
  progress.sampled = tokens.first(count);
  progress.stop_token = stop_token;
}

FinishReason Scheduler::check_end(const Sequence& sequence, TokenId token,
                                  std::optional<TokenId>& stop_token) const {
  const SequenceGroup& group = *sequence.group;
  const SamplingParams& sampling = group.sampling;
  const auto contains = [token](const std::vector<TokenId>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  const int32_t num_generated = sequence.num_tokens() - group.num_prompt_tokens;
  // The sampler masks end and stop tokens for the first min_tokens tokens.
  if (num_generated > sampling.min_tokens) {
    if (!sampling.ignore_eos && contains(group.end_token_ids)) return FinishReason::kStop;
    if (contains(sampling.stop_token_ids)) {
      stop_token = token;
      return FinishReason::kStop;
    }
  }
  const bool full = num_generated >= sampling.max_tokens || sequence.num_tokens() >= config_.max_model_len;
  return full ? FinishReason::kLength : FinishReason::kNone;
}

void Scheduler::apply_prompt_logprobs(const StepResult& result) {
  for (const PromptLogprobs& logprobs : result.prompt_logprobs) {
    Sequence* sequence = find_sequence(logprobs.seq);
    if (sequence == nullptr || sequence->muted) continue;
    // Of a beam search all news are sample 0's; which beam computes the prompt again does not matter.
    const bool beams = sequence->group->beams();
    if (beams && sequence->group->num_alive == 0) continue;
    progress_of(beams ? sequence->group->samples.front() : *sequence).prompt_logprobs = &logprobs;
  }
}

void Scheduler::apply_pooled(const StepResult& result) {
  for (const PooledVector& vector : result.pooled) {
    Sequence* sequence = find_sequence(vector.seq);
    if (sequence != nullptr && !sequence->muted && !sequence->group->failed)
      progress_of(*sequence).pooled = &vector;
  }
}

void Scheduler::apply_dropped(const StepResult& result) {
  for (const SeqId seq : result.dropped) {
    Sequence* sequence = find_sequence(seq);
    if (sequence == nullptr || sequence->over) continue;
    if (sequence->group->beams()) {
      if (sequence->state == SequenceState::kRunning) drop_beam(*sequence);
    } else {
      finish(*sequence, FinishReason::kAbort);
    }
  }
}

void Scheduler::fail_tokenless() {
  const auto check = [this](Sequence& sequence) {
    if (sequence.over || sequence.num_tokens() > sequence.num_computed_tokens) return;
    fail_group(*sequence.group, "The executor drew no token for the sequence.");
  };
  for (size_t i = 0; i < in_flight_.size(); ++i) {
    if (!plan_.scheduled[i].sample) continue;
    if (in_flight_[i]->group->beams()) {
      // Once for each search: its beams stand side by side.
      if (i == 0 || in_flight_[i - 1]->group != in_flight_[i]->group) check_beams(*in_flight_[i]->group);
    } else {
      check(*in_flight_[i]);
    }
  }
  for (Sequence* sequence : born_) {
    if (!sequence->group->beams()) check(*sequence);
  }
}

SequenceProgress& Scheduler::progress_of(Sequence& sequence) {
  if (sequence.progress_index < 0) {
    sequence.progress_index = static_cast<int32_t>(commit_.progress.size());
    reported_.push_back(&sequence);
    SequenceProgress& progress = commit_.progress.emplace_back();
    progress.request = sequence.group->id;
    progress.index = sequence.index;
    progress.seq = sequence.id;
  }
  return commit_.progress[static_cast<size_t>(sequence.progress_index)];
}

SequenceProgress& Scheduler::finish(Sequence& sequence, FinishReason reason) {
  mark_over(sequence);
  if (sequence.state == SequenceState::kUnborn) sequence.state = SequenceState::kEnded;
  if (sequence.table >= 0) release_at_commit(sequence);
  SequenceProgress& progress = progress_of(sequence);
  progress.finish_reason = reason;
  progress.request_finished = sequence.group->num_alive == 0;
  return progress;
}

void Scheduler::count_step() {
  if (plan_.scheduled.empty()) return;
  ++totals_.num_steps;
  totals_.num_computed_tokens += plan_.num_tokens;
  const KvStats kv = kv_.stats();
  wasted_slots_ += static_cast<double>(kv.slots_used - kv.slots_filled);
  held_slots_ += static_cast<double>(kv.slots_used);
}

void Scheduler::release_ending() {
  for (Sequence* sequence : in_flight_) sequence->in_flight = false;
  for (Sequence* sequence : reported_) sequence->progress_index = -1;
  reported_.clear();
  in_flight_.clear();
  if (any_dropped_) {
    any_dropped_ = false;
    std::erase_if(running_, [](const Sequence* beam) { return beam->state == SequenceState::kDormant; });
  }
  if (ending_.empty()) return;
  for (Sequence* sequence : ending_) leave_lists(*sequence);
  std::erase_if(running_, [](const Sequence* sequence) { return sequence->state == SequenceState::kEnded; });
  for (Sequence* sequence : ending_) {
    SequenceGroup& group = *sequence->group;
    sequence->ending = false;
    release(*sequence);
    erase_if_over(group);
  }
  ending_.clear();
}

}  // namespace quire
