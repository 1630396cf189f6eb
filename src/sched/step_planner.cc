#include "sched/step_planner.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"

namespace quire {

namespace {

// Steps are planned to take this fraction of a latency target, since they deviate from the expected time.
constexpr double kTargetFraction = 0.9;

void append_init(const Sequence& sequence, StepPlan& plan) {
  const SequenceGroup& group = *sequence.group;
  SequenceInit& init = plan.inits.emplace_back();
  init.seq = sequence.id;
  init.prompt_token_ids.assign(sequence.token_ids.begin(),
                               sequence.token_ids.begin() + group.num_prompt_tokens);
  init.sampling = group.request.sampling;
  init.end_token_ids = group.request.end_token_ids;
  init.seed = group.request.seed;
  init.adapter = group.request.adapter;
  init.constraint = group.request.constraint;
  init.words = group.request.words;
  init.pooling = group.request.pooling;
}

}  // namespace

void StepPlanner::plan(StepState& step, double now) {
  begin(step, now);
  admission_.requeue_loaded();
  state_.queues.promote_starving_waiting(state_.totals.num_steps);
  admission_.preempt_for_priority(step);
  schedule_running(step);
  if (state_.queues.running().empty()) {
    // A beam search that preempted itself is admitted again immediately, or the plan would be empty.
    step.preempted = false;
    state_.adapters.choose({}, state_.totals.num_steps);
  }
  if (!step.preempted) admit_waiting(step);
  finish(step);
}

void StepPlanner::begin(StepState& step, double now) {
  StepPlan& plan = step.plan;
  if (step.uncommitted) throw Error(cat("step ", plan.step, " is not committed yet"));
  measure_last_step(step, now);
  ++plan.step;
  plan.finished.clear();
  plan.inits.clear();
  plan.block_table_updates.clear();
  plan.block_ids.clear();
  plan.disk_writes.clear();
  plan.copies.clear();
  plan.disk_reads.clear();
  plan.scheduled.clear();
  plan.num_tokens = 0;
  plan.finished.swap(state_.finished_seqs);
  step.in_flight.clear();
  step.preempted = false;
  count_running(step);
}

void StepPlanner::measure_last_step(StepState& step, double now) {
  step.now = std::max(step.now, now);
  if (measures_) state_.step_clock.observe(step.plan.num_tokens, step.now - step_begin_);
  measures_ = false;
  step_begin_ = step.now;
}

void StepPlanner::count_running(StepState& step) const {
  step.num_partial_prefills = 0;
  step.num_promised_blocks = 0;
  const SequenceGroup* previous = nullptr;
  for (const Sequence* sequence : state_.queues.running()) {
    const SequenceGroup* group = sequence->group;
    if (is_partial_prefill(*sequence)) ++step.num_partial_prefills;
    if (group != previous && group->admitted_early) step.num_promised_blocks += group->num_promised_blocks;
    previous = group;
  }
}

// A prompt that no step has begun counts only if it needs several of them.
bool StepPlanner::is_partial_prefill(const Sequence& sequence) const {
  const bool begun = !sequence.group->admitted_early;
  return !decodes(sequence) && (begun || sequence.num_left() > max_chunk(state_.config));
}

bool StepPlanner::prompt_fits(const StepState& step, const SequenceGroup& group) const {
  return !state_.config.whole_prompts || group.num_prompt_tokens <= step.budget;
}

// The token budget of the step. While sequences decode, tpot_slo limits it: each of them gets its token, and
// prompts get what the time allows, but at least a block, so that they make progress.
void StepPlanner::limit_budget(StepState& step) const {
  const SchedulerConfig& config = state_.config;
  step.budget = config.max_num_batched_tokens;
  step.decodes_left = 0;
  if (config.tpot_slo <= 0.0) return;
  for (const Sequence* sequence : state_.queues.running()) {
    if (decodes(*sequence) && state_.adapters.serves(*sequence->group)) ++step.decodes_left;
  }
  if (step.decodes_left == 0) return;
  const int64_t min_budget = int64_t{step.decodes_left} + state_.kv.block_size();
  const int64_t within = state_.step_clock.tokens_within(kTargetFraction * config.tpot_slo);
  step.budget = static_cast<int32_t>(std::min<int64_t>(step.budget, std::max(min_budget, within)));
}

void StepPlanner::schedule_running(StepState& step) {
  const std::vector<Sequence*>& running = state_.queues.running();
  size_t num_before = 0;
  do {
    num_before = running.size();
    state_.adapters.choose(running, state_.totals.num_steps);
    limit_budget(step);
    schedule_served(step);
    // If the only requests of their turn were preempted, others take it.
  } while (step.in_flight.empty() && !running.empty() && running.size() < num_before);
}

void StepPlanner::schedule_served(StepState& step) {
  const std::vector<Sequence*>& running = state_.queues.running();
  // Preemption removes from the end of the list, so entries before i stay.
  size_t i = 0;
  while (i < running.size() && step.budget > 0) {
    SequenceGroup& group = *running[i]->group;
    if (state_.adapters.serves(group) && prompt_fits(step, group)) {
      if (group.admitted_early) admission_.renew_prefix(group, step);
      if (!schedule_group(step, i)) return;
    }
    i += static_cast<size_t>(group.num_running);
  }
  state_.queues.promote_starving_running(i, state_.totals.num_steps);
}

void StepPlanner::admit_waiting(StepState& step) {
  while (const Sequence* first = admission_.admit_next(step)) {
    SequenceGroup& group = *first->group;
    if (state_.adapters.join(group, state_.totals.num_steps) && prompt_fits(step, group))
      schedule_group(step, state_.queues.index_in_running(group));
    if (first->num_planned_tokens < first->num_left() && is_partial_prefill(*first))
      ++step.num_partial_prefills;
  }
}

// Schedules the group whose samples begin at running()[begin]. Allocates slots for all of them first, so that
// no sample of the group is in the plan if the group has to be preempted. Returns false if it was.
bool StepPlanner::schedule_group(StepState& step, size_t begin) {
  const std::vector<Sequence*>& running = state_.queues.running();
  const SequenceGroup& group = *running[begin]->group;
  const auto end = [&] { return begin + static_cast<size_t>(group.num_running); };
  share_budget(step, begin, end());
  for (size_t i = begin; i < end(); ++i) {
    Sequence& sequence = *running[i];
    if (sequence.num_planned_tokens > 0 && !allocate_slots(step, sequence) && group.num_running == 0)
      return false;
  }
  for (size_t i = begin; i < end(); ++i) {
    if (running[i]->num_planned_tokens > 0) put_in_flight(step, *running[i]);
  }
  return true;
}

void StepPlanner::share_budget(const StepState& step, size_t begin, size_t end) const {
  const std::vector<Sequence*>& running = state_.queues.running();
  const SequenceGroup& group = *running[begin]->group;
  if (group.uses_beam_search() && group.forked) return share_budget_of_beams(step, begin, end);
  int32_t budget = step.budget;
  for (size_t i = begin; i < end; ++i) {
    Sequence& sequence = *running[i];
    const bool skipped = sequence.in_flight || sequence.awaits_prompt;
    sequence.num_planned_tokens = skipped ? 0 : chunk_of(step, sequence, budget);
    budget -= sequence.num_planned_tokens;
  }
}

// Beams sample in the same step: all compute their last token, or none does.
void StepPlanner::share_budget_of_beams(const StepState& step, size_t begin, size_t end) const {
  const std::vector<Sequence*>& running = state_.queues.running();
  int64_t sum = 0;
  bool all_sample = true;
  for (size_t i = begin; i < end; ++i) {
    const Sequence& beam = *running[i];
    sum += beam.num_left();
    all_sample = all_sample && !beam.awaits_prompt && chunk_of(step, beam, step.budget) == beam.num_left();
  }
  all_sample = all_sample && sum <= step.budget;
  int32_t budget = step.budget;
  for (size_t i = begin; i < end; ++i) {
    Sequence& beam = *running[i];
    const int32_t left = beam.num_left();
    if (all_sample) {
      beam.num_planned_tokens = left;
    } else {
      beam.num_planned_tokens = beam.awaits_prompt ? 0 : std::min(chunk_of(step, beam, budget), left - 1);
    }
    budget -= beam.num_planned_tokens;
  }
}

int32_t StepPlanner::chunk_of(const StepState& step, const Sequence& sequence, int32_t budget) const {
  const SchedulerConfig& config = state_.config;
  const int32_t left = sequence.num_left();
  if (left == 1) return std::min(1, budget);
  // The first sequence of a plan makes progress in any case.
  const int32_t min_chunk = step.in_flight.empty() ? std::min(1, budget) : 0;
  const int32_t own = decodes(sequence) && step.decodes_left > 0 ? 1 : 0;
  int32_t chunk = std::min(left, std::max(min_chunk, budget - step.decodes_left + own));
  if (config.long_prefill_token_threshold > 0 && !config.whole_prompts) {
    const int32_t for_ttft = config.ttft_slo > 0.0 ? chunk_for_ttft(step, sequence, chunk) : 0;
    chunk = std::min(chunk, std::max(config.long_prefill_token_threshold, for_ttft));
  }
  const SequenceGroup& group = *sequence.group;
  // The prompt sample stops where the waiting samples are forked from it.
  if (group.num_awaiting_prompt > 0 && group.prompt_sample == &sequence)
    chunk = std::min(chunk, group.num_prompt_tokens - sequence.num_computed_tokens);
  // Recurrent states are cached only where a chunk ends at a checkpoint.
  const int32_t to_checkpoint = state_.kv.tokens_to_checkpoint(sequence.table);
  return to_checkpoint > 0 ? std::min(chunk, to_checkpoint) : chunk;
}

// The smallest chunk, among the threshold times powers of two, with which the prompt meets ttft_slo if steps
// continue like this; max_chunk if none does.
int32_t StepPlanner::chunk_for_ttft(const StepState& step, const Sequence& sequence,
                                    int32_t max_chunk) const {
  const SchedulerConfig& config = state_.config;
  const SequenceGroup& group = *sequence.group;
  if (!state_.step_clock.ready() || sequence.num_tokens() > group.num_prompt_tokens) return 0;
  const double time_left = group.request.arrival + kTargetFraction * config.ttft_slo - step.now;
  const int64_t left = sequence.num_left();
  const int64_t others = config.max_num_batched_tokens - step.budget + step.decodes_left;
  for (int64_t chunk = config.long_prefill_token_threshold; chunk < max_chunk; chunk *= 2) {
    const int64_t num_steps = (left + chunk - 1) / chunk;
    if (static_cast<double>(num_steps) * state_.step_clock.seconds_for(chunk + others) <= time_left)
      return static_cast<int32_t>(chunk);
  }
  return max_chunk;
}

// Allocates slots for the sequence's chunk, if necessary by preempting the requests that are last in
// scheduling order. Returns false if the sequence itself was preempted.
bool StepPlanner::allocate_slots(StepState& step, Sequence& sequence) {
  const std::vector<Sequence*>& running = state_.queues.running();
  const int32_t num_tokens = sequence.num_computed_tokens + sequence.num_planned_tokens;
  while (!state_.kv.allocate_slots(sequence.table, num_tokens, step.plan.copies)) {
    const Sequence& last = *running.back();
    const SequenceGroup& victim = *last.group;
    if (&victim != sequence.group || running.front()->group != &victim) {
      const bool preempts_itself = &victim == sequence.group;
      preemption_.preempt_last_request(step);
      if (preempts_itself) return false;
    } else if (victim.uses_beam_search() && !victim.must_share_prompt) {
      // check_request() counts the prompt's blocks once for all beams.
      sequence.group->must_share_prompt = true;
      preemption_.preempt_last_request(step);
      return false;
    } else {
      // The first request continues with as many of its samples as fit.
      if (victim.num_running == 1 || victim.uses_beam_search())
        throw Error(cat("sequence ", sequence.id, ": runs alone and does not fit into the KV cache"));
      const bool preempts_itself = &last == &sequence;
      preemption_.preempt_last_sample(step, false);
      ++state_.totals.num_preemptions;
      if (preempts_itself) return false;
    }
  }
  return true;
}

void StepPlanner::put_in_flight(StepState& step, Sequence& sequence) {
  const int32_t num_new_tokens = sequence.num_planned_tokens;
  const bool reaches_end = num_new_tokens == sequence.num_left();
  if (decodes(sequence) && step.decodes_left > 0) --step.decodes_left;
  if (!sequence.executor_has_state) {
    append_init(sequence, step.plan);
    sequence.executor_has_state = true;
    // The first sample is the first that is computed.
    if (sequence.index == 0) state_.started.push_back(sequence.group->id);
  }
  end_early_admission(*sequence.group, step);
  const bool sample = reaches_end && sequence.group->request.sampling->max_tokens > 0;
  step.plan.scheduled.push_back({sequence.id, sequence.num_computed_tokens, num_new_tokens, sample});
  step.plan.num_tokens += num_new_tokens;
  step.in_flight.push_back(&sequence);
  sequence.in_flight = true;
  step.budget -= num_new_tokens;
}

void StepPlanner::finish(StepState& step) {
  for (const Sequence* sequence : step.in_flight)
    state_.kv.append_updates(sequence->table, sequence->id, step.plan);
  state_.kv.take_disk_writes(step.plan.disk_writes);
  step.uncommitted = !step.plan.scheduled.empty();
  measures_ = step.uncommitted;
}

}  // namespace quire
