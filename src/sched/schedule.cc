// schedule(): the phases of planning a step.
#include <algorithm>

#include "base/strings.h"
#include "sched/scheduler.h"

namespace quire {

namespace {

// While others run, a waiting sequence is admitted only if this part of the pool stays free behind its last
// known token: those who run need blocks to go on, and would throw it out again.
constexpr int32_t kReservedPart = 100;

}  // namespace

const StepPlan& Scheduler::schedule() {
  begin_plan();
  schedule_running();
  if (!preempted_this_step_) admit_waiting();
  build_plan();
  return plan_;
}

void Scheduler::begin_plan() {
  if (uncommitted_) throw Error(cat("Step ", plan_.step, " was planned and not committed."));
  ++plan_.step;
  plan_.finished.clear();
  plan_.inits.clear();
  plan_.block_table_updates.clear();
  plan_.block_ids.clear();
  plan_.copies.clear();
  plan_.scheduled.clear();
  plan_.num_tokens = 0;
  plan_.finished.swap(to_forget_);
  in_flight_.clear();
  budget_ = config_.max_num_batched_tokens;
  preempted_this_step_ = false;
}

void Scheduler::schedule_running() {
  // Preemption takes from the end of running_, so what stands before i stays.
  for (size_t i = 0; i < running_.size() && budget_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    const int32_t num_new_tokens = chunk_of(sequence, sequence.num_computed_tokens);
    if (!make_room(sequence, num_new_tokens)) break;
    put_in_flight(sequence, num_new_tokens);
  }
}

// Slots for the sequence's next tokens, taken from those served after it if need be. False when it was the
// last itself and had to give way.
bool Scheduler::make_room(Sequence& sequence, int32_t num_new_tokens) {
  while (!kv_.allocate_slots(sequence.table, sequence.num_computed_tokens + num_new_tokens, plan_.copies)) {
    Sequence& victim = *running_.back();
    preempt(victim);
    if (&victim == &sequence) return false;
  }
  return true;
}

void Scheduler::preempt(Sequence& sequence) {
  kv_.clear(sequence.table);
  sequence.num_computed_tokens = 0;
  running_.pop_back();
  num_seats_taken_ -= seats_of(sequence);
  sequence.state = SequenceState::kWaiting;
  waiting_.push_preempted(sequence);
  ++totals_.num_preemptions;
  preempted_this_step_ = true;
}

void Scheduler::admit_waiting() {
  while (budget_ > 0 && !waiting_.empty() && admit(*waiting_.front())) {
  }
}

bool Scheduler::admit(Sequence& sequence) {
  SequenceGroup& group = *sequence.group;
  if (num_seats_taken_ + seats_of(sequence) > config_.max_num_seqs) return false;

  // Log-probabilities of the prompt come from computing it.
  const bool reads_cache = !group.sampling.prompt_logprobs.has_value();
  const std::span<const TokenId> known(sequence.token_ids);
  kv_.find_prefix(sequence.table, reads_cache ? known : known.first(0), match_);
  if (!running_.empty()) {
    const int64_t needed = kv_.blocks_to_start(match_, sequence.num_tokens(), config_.max_num_batched_tokens);
    if (needed + kv_.num_blocks() / kReservedPart > kv_.num_free()) return false;
  }
  const int32_t num_new_tokens = chunk_of(sequence, match_.num_tokens);
  if (!kv_.start(sequence.table, match_, match_.num_tokens + num_new_tokens, plan_.copies)) return false;

  waiting_.remove(sequence);
  sequence.state = SequenceState::kRunning;
  sequence.num_computed_tokens = match_.num_tokens;
  insert_running(sequence);
  num_seats_taken_ += seats_of(sequence);
  if (!group.started) start_group(sequence);
  if (!sequence.known) {
    append_init(sequence);
    sequence.known = true;
  }
  put_in_flight(sequence, num_new_tokens);
  return true;
}

void Scheduler::start_group(Sequence& sequence) {
  SequenceGroup& group = *sequence.group;
  group.started = true;
  --num_never_started_;
  group.num_cached_tokens = match_.num_tokens;
  started_.push_back(group.id);
  reserve_growth(sequence);
  if (config_.enable_prefix_caching && !group.sampling.prompt_logprobs.has_value()) {
    totals_.prefix_queried_tokens += group.num_prompt_tokens;
    totals_.prefix_hit_tokens += match_.num_tokens;
  }
}

// A sequence that runs allocates nothing from step to step: its vectors have their final size from the start.
void Scheduler::reserve_growth(Sequence& sequence) {
  const SequenceGroup& group = *sequence.group;
  const int64_t final_size =
      std::min<int64_t>(int64_t{group.num_prompt_tokens} + group.sampling.max_tokens, config_.max_model_len);
  sequence.token_ids.reserve(static_cast<size_t>(final_size));
  kv_.reserve(sequence.table, final_size);
}

void Scheduler::insert_running(Sequence& sequence) {
  auto at = running_.end();
  while (at != running_.begin() && served_before(sequence, **(at - 1))) --at;
  running_.insert(at, &sequence);
}

int32_t Scheduler::chunk_of(const Sequence& sequence, int32_t num_computed_tokens) const {
  int32_t chunk = std::min(sequence.num_tokens() - num_computed_tokens, budget_);
  if (config_.long_prefill_token_threshold > 0) chunk = std::min(chunk, config_.long_prefill_token_threshold);
  return chunk;
}

void Scheduler::put_in_flight(Sequence& sequence, int32_t num_new_tokens) {
  const bool reaches_end = sequence.num_computed_tokens + num_new_tokens == sequence.num_tokens();
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
}

void Scheduler::build_plan() {
  for (const Sequence* sequence : in_flight_) kv_.append_updates(sequence->table, sequence->id, plan_);
  uncommitted_ = !plan_.scheduled.empty();
}

}  // namespace quire
