// schedule(): the phases of planning a step.
#include <algorithm>
#include <limits>

#include "base/strings.h"
#include "sched/scheduler.h"

namespace quire {

namespace {

// The part of a target for times that a step is planned to take: steps differ from what they were expected
// to.
constexpr double kTargetPart = 0.9;

}  // namespace

const StepPlan& Scheduler::schedule(double now) {
  begin_plan(now);
  take_loaded();
  promote_starving();
  make_way();
  schedule_running();
  if (!preempted_this_step_) admit_waiting();
  build_plan();
  return plan_;
}

void Scheduler::begin_plan(double now) {
  if (uncommitted_) throw Error(cat("Step ", plan_.step, " was planned and not committed."));
  measure_last_step(now);
  ++plan_.step;
  plan_.finished.clear();
  plan_.inits.clear();
  plan_.block_table_updates.clear();
  plan_.block_ids.clear();
  plan_.disk_writes.clear();
  plan_.copies.clear();
  plan_.disk_reads.clear();
  plan_.scheduled.clear();
  plan_.num_tokens = 0;
  plan_.finished.swap(to_forget_);
  in_flight_.clear();
  preempted_this_step_ = false;
  limit_budget();
}

void Scheduler::measure_last_step(double now) {
  now_ = std::max(now_, now);
  if (timed_) step_clock_.observe(plan_.num_tokens, now_ - step_begin_);
  timed_ = false;
  step_begin_ = now_;
}

// The tokens of this step. While someone decodes, tpot_slo bounds them: those who decode get their token, and
// prompts what the time allows, but at least a block, so that they come to an end.
void Scheduler::limit_budget() {
  budget_ = config_.max_num_batched_tokens;
  decodes_left_ = 0;
  num_partial_ = 0;
  if (config_.tpot_slo <= 0.0 && config_.max_num_partial_prefills <= 0) return;
  for (const Sequence* sequence : running_) {
    const bool decodes = sequence->num_left() == 1;
    decodes_left_ += decodes ? 1 : 0;
    num_partial_ += decodes ? 0 : 1;
  }
  if (config_.tpot_slo <= 0.0) decodes_left_ = 0;
  if (decodes_left_ == 0) return;
  const int64_t least = int64_t{decodes_left_} + kv_.block_size();
  const int64_t within = step_clock_.tokens_within(kTargetPart * config_.tpot_slo);
  budget_ = static_cast<int32_t>(std::min<int64_t>(budget_, std::max(least, within)));
}

void Scheduler::schedule_running() {
  // Preemption takes from the end of running_, so what stands before i stays.
  size_t i = 0;
  while (i < running_.size() && budget_ > 0) {
    const SequenceGroup& group = *running_[i]->group;
    if (!plan_group(i)) return;
    i += static_cast<size_t>(group.num_running);
  }
  if (config_.policy != SchedulingPolicy::kMlfq) return;
  for (; i < running_.size(); ++i) {
    SequenceGroup& group = *running_[i]->group;
    if (FeedbackLevels::starves(group, now_, config_.starvation_bound)) promote(group);
  }
  sort_moved();
}

// Plans the group whose samples begin at running_[begin]. Slots for all of them first, so that nothing of the
// group stands in the plan when it has to give way. False when it had to.
bool Scheduler::plan_group(size_t begin) {
  const SequenceGroup& group = *running_[begin]->group;
  const auto end = [&] { return begin + static_cast<size_t>(group.num_running); };
  share_budget(begin, end());
  for (size_t i = begin; i < end(); ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.num_planned_tokens > 0 && !make_room(sequence) && group.num_running == 0) return false;
  }
  for (size_t i = begin; i < end(); ++i) {
    if (running_[i]->num_planned_tokens > 0) put_in_flight(*running_[i]);
  }
  return true;
}

void Scheduler::share_budget(size_t begin, size_t end) {
  if (running_[begin]->group->beams() && running_[begin]->group->forked) {
    share_budget_of_beams(begin, end);
    return;
  }
  int32_t budget = budget_;
  for (size_t i = begin; i < end; ++i) {
    Sequence& sequence = *running_[i];
    const bool waits = sequence.in_flight || sequence.follows;
    sequence.num_planned_tokens = waits ? 0 : chunk_of(sequence, budget);
    budget -= sequence.num_planned_tokens;
  }
}

// Beams draw in the same step: all compute their last token, or none does.
void Scheduler::share_budget_of_beams(size_t begin, size_t end) {
  int64_t sum = 0;
  bool whole = true;
  for (size_t i = begin; i < end; ++i) {
    const Sequence& beam = *running_[i];
    sum += beam.num_left();
    whole = whole && !beam.follows && chunk_of(beam, budget_) == beam.num_left();
  }
  whole = whole && sum <= budget_;
  int32_t budget = budget_;
  for (size_t i = begin; i < end; ++i) {
    Sequence& beam = *running_[i];
    const int32_t left = beam.num_left();
    beam.num_planned_tokens = whole ? left : beam.follows ? 0 : std::min(chunk_of(beam, budget), left - 1);
    budget -= beam.num_planned_tokens;
  }
}

int32_t Scheduler::chunk_of(const Sequence& sequence, int32_t budget) const {
  const int32_t left = sequence.num_left();
  if (left == 1) return std::min(1, budget);
  // The first of all goes on in any case.
  const int32_t least = in_flight_.empty() ? std::min(1, budget) : 0;
  int32_t chunk = std::min(left, std::max(least, budget - decodes_left_));
  if (config_.long_prefill_token_threshold > 0 && !config_.whole_prompts) {
    const int32_t urgent = config_.ttft_slo > 0.0 ? urgent_chunk(sequence, chunk) : 0;
    chunk = std::min(chunk, std::max(config_.long_prefill_token_threshold, urgent));
  }
  const SequenceGroup& group = *sequence.group;
  // The leader stops where its followers are forked from it.
  if (group.num_followers > 0 && group.leader == &sequence)
    chunk = std::min(chunk, group.num_prompt_tokens - sequence.num_computed_tokens);
  // States of fixed size can be found again only where a chunk ended at a border.
  const int32_t border = kv_.tokens_to_checkpoint(sequence.table);
  return border > 0 ? std::min(chunk, border) : chunk;
}

// The smallest chunk, in doublings of the threshold, with which a prompt gets its first token in time at the
// pace of such steps; `most` when none does.
int32_t Scheduler::urgent_chunk(const Sequence& sequence, int32_t most) const {
  const SequenceGroup& group = *sequence.group;
  if (!step_clock_.ready() || sequence.num_tokens() > group.num_prompt_tokens) return 0;
  const double time_left = group.arrival + kTargetPart * config_.ttft_slo - now_;
  const int64_t left = sequence.num_left();
  const int64_t others = config_.max_num_batched_tokens - budget_ + decodes_left_;
  for (int64_t chunk = config_.long_prefill_token_threshold; chunk < most; chunk *= 2) {
    const int64_t num_steps = (left + chunk - 1) / chunk;
    if (static_cast<double>(num_steps) * step_clock_.seconds_for(chunk + others) <= time_left)
      return static_cast<int32_t>(chunk);
  }
  return most;
}

// Slots for the sequence's next tokens, taken from the groups served last if need be. False when it had to
// give way itself.
bool Scheduler::make_room(Sequence& sequence) {
  const int32_t num_tokens = sequence.num_computed_tokens + sequence.num_planned_tokens;
  while (!kv_.allocate_slots(sequence.table, num_tokens, plan_.copies)) {
    const Sequence& last = *running_.back();
    const SequenceGroup& victim = *last.group;
    if (&victim != sequence.group || running_.front()->group != &victim) {
      const bool itself = &victim == sequence.group;
      preempt_last();
      if (itself) return false;
    } else {
      // The first of all goes on with as many of its samples as fit.
      if (victim.num_running == 1 || victim.beams()) {
        throw Error(cat("Sequence ", sequence.id, " runs alone, and the KV cache is too small for it."));
      }
      const bool itself = &last == &sequence;
      set_aside_last(false);
      ++totals_.num_preemptions;
      if (itself) return false;
    }
  }
  return true;
}

void Scheduler::put_in_flight(Sequence& sequence) {
  const int32_t num_new_tokens = sequence.num_planned_tokens;
  const bool reaches_end = num_new_tokens == sequence.num_left();
  if (sequence.num_left() == 1 && decodes_left_ > 0) --decodes_left_;
  if (!sequence.known) {
    append_init(sequence);
    sequence.known = true;
  }
  const bool sample = reaches_end && sequence.group->sampling.max_tokens > 0;
  plan_.scheduled.push_back({sequence.id, sequence.num_computed_tokens, num_new_tokens, sample});
  plan_.num_tokens += num_new_tokens;
  in_flight_.push_back(&sequence);
  sequence.in_flight = true;
  budget_ -= num_new_tokens;
}

void Scheduler::append_init(const Sequence& sequence) {
  const SequenceGroup& group = *sequence.group;
  SequenceInit& init = plan_.inits.emplace_back();
  init.seq = sequence.id;
  init.prompt_token_ids.assign(sequence.token_ids.begin(),
                               sequence.token_ids.begin() + group.num_prompt_tokens);
  init.sampling = group.sampling;
  init.end_token_ids = group.end_token_ids;
  init.seed = group.seed;
  init.adapter = group.adapter;
  init.pooling = group.pooling;
}

void Scheduler::build_plan() {
  for (const Sequence* sequence : in_flight_) kv_.append_updates(sequence->table, sequence->id, plan_);
  kv_.take_disk_writes(plan_.disk_writes);
  uncommitted_ = !plan_.scheduled.empty();
  timed_ = uncommitted_;
}

}  // namespace quire
