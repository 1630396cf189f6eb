#include "sched/admission.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/strings.h"
#include "sched/sample_lifecycle.h"

namespace quire {

namespace {

// While others run, a waiting request is admitted only if 1/100 of the pool stays free after its known
// tokens: running requests need blocks to continue, and would preempt it otherwise.
constexpr int32_t kReservedFraction = 100;

}  // namespace

const Sequence* Admission::admit_next(StepState& step) {
  const SchedulerConfig& config = state_.config;
  const bool early = state_.adapters.limited();
  while ((step.budget > 0 || early) && !step.preempted) {
    SequenceGroup* group = state_.queues.next_waiting();
    if (group == nullptr) return nullptr;
    const int32_t threshold = config.long_prefill_token_threshold;
    int32_t chunk = std::min(step.budget - step.decodes_left, threshold > 0 ? threshold : step.budget);
    if (early) {
      chunk = max_chunk(config);
    } else {
      if (chunk < 1 && !step.in_flight.empty()) return nullptr;
      if (config.whole_prompts && group->num_prompt_tokens > step.budget) return nullptr;
    }
    const size_t count = num_admissible(*group, step, chunk);
    if (begin_loading(*group, step)) continue;
    if (count == 0) return nullptr;
    admit(*group, count, step);
    return admission_batch_.front();
  }
  return nullptr;
}

void Admission::preempt_for_priority(StepState& step) {
  RequestQueues& queues = state_.queues;
  if (!queues.preempts()) return;
  while (!queues.running().empty()) {
    SequenceGroup* group = queues.next_waiting();
    const auto outranked = [&] {
      return !queues.running().empty() && group->rank.level < queues.running().back()->group->rank.level;
    };
    if (group == nullptr || !outranked()) return;
    if (begin_loading(*group, step)) continue;
    size_t count = num_admissible(*group, step, 1);
    if (count == 0 && !preemption_would_suffice(*group, step)) return;
    while (count == 0 && outranked()) {
      preemption_.preempt_last_request(step);
      count = num_admissible(*group, step, 1);
    }
    if (count == 0) return;
    admit(*group, count, step);
    if (admission_batch_.front()->num_left() > 1) ++step.num_partial_prefills;
  }
}

// Whether the group could be admitted if all running requests of higher levels were preempted. Blocks that
// several of them share are counted for each, so the answer may be too optimistic.
bool Admission::preemption_would_suffice(const SequenceGroup& group, const StepState& step) {
  const SchedulerConfig& config = state_.config;
  const std::vector<Sequence*>& running = state_.queues.running();
  int32_t num_slots = state_.requests.num_slots_taken() + slots_wanted(group);
  int64_t num_blocks = state_.kv.num_free();
  const SequenceGroup* previous = nullptr;
  for (size_t i = running.size(); i-- > 0;) {
    const SequenceGroup& victim = *running[i]->group;
    if (victim.rank.level <= group.rank.level) break;
    if (&victim != previous) num_slots -= victim.num_slots;
    previous = &victim;
    num_blocks += state_.kv.num_held(running[i]->table);
  }
  int64_t needed = state_.kv.num_blocks() / kReservedFraction + blocks_to_swap_in(group);
  for (const Sequence& sample : group.samples) {
    if (sample.state != SequenceState::kWaiting || !swapped_tables_.empty()) continue;
    find_prefix(sample);
    needed += state_.kv.blocks_to_start(match_, sample.num_tokens(), config.max_num_batched_tokens);
    break;
  }
  const bool prompt_may_start =
      config.max_num_partial_prefills <= 0 || step.num_partial_prefills < config.max_num_partial_prefills;
  return num_slots <= config.max_num_seqs && needed <= num_blocks && prompt_may_start;
}

void Admission::find_prefix(const Sequence& sequence) {
  const SequenceGroup& group = *sequence.group;
  int32_t num_tokens = group.reads_prefix_cache() ? sequence.num_tokens() : 0;
  // Samples are forked at the end of the prompt.
  if (group.must_share_prompt) num_tokens = std::min(num_tokens, group.num_prompt_tokens);
  state_.kv.find_prefix(sequence.table, std::span(sequence.token_ids).first(static_cast<size_t>(num_tokens)),
                        match_);
}

// Whether a sample that starts from match_ needs no other sample to compute the shared prompt.
bool Admission::prompt_cached(const SequenceGroup& group) const {
  return match_.num_tokens >= num_shared_prompt_tokens(group) && !group.must_share_prompt;
}

// Tokens of the prompt in full blocks, which the samples hold together.
int32_t Admission::num_shared_prompt_tokens(const SequenceGroup& group) const {
  const int32_t block_size = state_.kv.block_size();
  return group.num_prompt_tokens / block_size * block_size;
}

// Blocks that a sequence with slots for num_tokens tokens still allocates until all its tokens are computed.
int64_t Admission::blocks_to_grow(const Sequence& sequence, int32_t num_tokens) {
  const int32_t num_blocks = num_tokens / state_.kv.block_size();
  grown_match_.num_tokens = num_blocks * state_.kv.block_size();
  grown_match_.blocks.resize(static_cast<size_t>(state_.kv.num_groups()));
  for (auto& blocks : grown_match_.blocks) blocks.assign(static_cast<size_t>(num_blocks), CachedBlock{});
  return state_.kv.blocks_to_start(grown_match_, sequence.num_tokens(), state_.config.max_num_batched_tokens);
}

// Blocks for all swapped samples of the group until their tokens are computed. Leaves their tables in
// swapped_tables_.
int64_t Admission::blocks_to_swap_in(const SequenceGroup& group) {
  swapped_tables_.clear();
  int64_t needed = 0;
  for (const Sequence& sample : group.samples) {
    if (sample.state != SequenceState::kWaiting || sample.num_computed_tokens == 0) continue;
    swapped_tables_.push_back(sample.table);
    needed += blocks_to_grow(sample, sample.num_computed_tokens);
  }
  return swapped_tables_.empty() ? 0 : needed + state_.kv.blocks_to_swap_in(swapped_tables_);
}

// How many of the group's waiting samples can run: all or none while other requests run. Prompts of more than
// max_chunk tokens count as partial prefills. Leaves the samples in admission_batch_.
size_t Admission::num_admissible(SequenceGroup& group, const StepState& step, int32_t max_chunk) {
  const SchedulerConfig& config = state_.config;
  KvManager& kv = state_.kv;
  const bool nothing_runs = state_.queues.running().empty();
  if (state_.requests.num_slots_taken() + slots_wanted(group) > config.max_num_seqs) return 0;
  admission_batch_.clear();
  for (const bool swapped : {true, false}) {
    for (Sequence& sample : group.samples) {
      if (sample.state == SequenceState::kWaiting && (sample.num_computed_tokens > 0) == swapped)
        admission_batch_.push_back(&sample);
    }
  }
  const int64_t reserved =
      nothing_runs ? 0 : kv.num_blocks() / kReservedFraction + group.num_running + step.num_promised_blocks;
  int64_t needed = reserved + blocks_to_swap_in(group);
  // Samples that were swapped out together fit together if nothing else runs.
  if (!swapped_tables_.empty() && needed > kv.num_free() && !nothing_runs) return 0;
  const bool shares_prompt = group.num_running == 0 && admission_batch_.size() > 1 && swapped_tables_.empty();
  bool has_prompt_sample = false;
  size_t count = swapped_tables_.size();
  for (; count < admission_batch_.size(); ++count) {
    const Sequence& sample = *admission_batch_[count];
    find_prefix(sample);
    const bool cached = prompt_cached(group);
    needed += shares_prompt && has_prompt_sample && !cached
                  ? blocks_to_grow(sample, num_shared_prompt_tokens(group))
                  : kv.blocks_to_start(match_, sample.num_tokens(), config.max_num_batched_tokens);
    has_prompt_sample = has_prompt_sample || !cached;
    // The admission check of add_request() guarantees that one sample alone fits, or all beams of a search.
    const bool always_fits = nothing_runs && (count == 0 || group.uses_beam_search());
    if (needed > kv.num_free() && !always_fits) break;
    if (count == 0 && config.max_num_partial_prefills > 0 && !always_fits &&
        sample.num_tokens() - match_.num_tokens > max_chunk &&
        step.num_partial_prefills >= config.max_num_partial_prefills) {
      return 0;
    }
  }
  blocks_to_admit_ = needed - reserved;
  const bool alone = state_.queues.runs_alone(group);
  return count == admission_batch_.size() || alone ? count : 0;
}

// Moves the first `count` samples of admission_batch_ to the running list.
void Admission::admit(SequenceGroup& group, size_t count, StepState& step) {
  const bool shares_prompt = group.num_running == 0 && admission_batch_.size() > 1 && swapped_tables_.empty();
  const int64_t num_free_before = state_.kv.num_free();
  state_.queues.remove_waiting(group);
  if (!swapped_tables_.empty()) {
    if (!state_.kv.swap_in(swapped_tables_, step.plan.copies))
      throw Error(cat("request ", group.id, ": its swapped blocks do not fit, though they did before"));
    ++state_.totals.num_swap_ins;
  }
  for (size_t i = 0; i < count; ++i) start_sample(*admission_batch_[i], shares_prompt, step);
  if (group.num_awaiting_prompt == 0) group.prompt_sample = nullptr;
  state_.requests.update_slots(group);
  if (!group.started) note_first_admission(group);
  // After the first admission: from then on the group is in another queue.
  if (group.num_waiting > 0) state_.queues.push_waiting(group);
  for (size_t i = 0; i < count; ++i) state_.queues.insert_running(*admission_batch_[i]);
  if (!state_.adapters.limited()) return;
  if (!group.admitted_early) group.num_promised_blocks = 0;
  group.admitted_early = true;
  const int64_t promised = std::max(int64_t{0}, blocks_to_admit_ - (num_free_before - state_.kv.num_free()));
  group.num_promised_blocks += promised;
  step.num_promised_blocks += promised;
}

void Admission::start_sample(Sequence& sequence, bool shares_prompt, StepState& step) {
  SequenceGroup& group = *sequence.group;
  if (sequence.num_computed_tokens == 0) {
    find_prefix(sequence);
    const bool shares = shares_prompt && !prompt_cached(group);
    if (shares && group.prompt_sample != nullptr) {
      sequence.awaits_prompt = true;
      ++group.num_awaiting_prompt;
    } else {
      start_from_cache(sequence, step);
      if (shares) group.prompt_sample = &sequence;
    }
  }
  sequence.state = SequenceState::kRunning;
  sequence.num_planned_tokens = 0;
  --group.num_waiting;
  --state_.requests.num_waiting;
  ++group.num_running;
}

void Admission::start_from_cache(Sequence& sequence, StepState& step) {
  if (!state_.kv.start(sequence.table, match_, match_.num_tokens, step.plan.copies))
    throw Error(cat("sequence ", sequence.id, ": cannot allocate the cached prefix that was found"));
  sequence.num_computed_tokens = match_.num_tokens;
}

void Admission::renew_prefix(SequenceGroup& group, StepState& step) {
  if (group.num_running != 1) return;
  Sequence& sequence = *std::ranges::find(group.samples, SequenceState::kRunning, &Sequence::state);
  find_prefix(sequence);
  const int32_t num_added = match_.num_tokens - sequence.num_computed_tokens;
  if (num_added <= 0) return;
  const int64_t needed = state_.kv.blocks_to_start(match_, sequence.num_tokens(), max_chunk(state_.config));
  if (needed > state_.kv.num_free()) return;
  state_.kv.clear(sequence.table);
  start_from_cache(sequence, step);
  if (sequence.executor_has_state) return;
  group.num_cached_tokens += num_added;
  state_.totals.prefix_hit_tokens += num_added;
}

void Admission::note_first_admission(SequenceGroup& group) {
  Sequence& first = group.samples.front();
  group.started = true;
  group.num_cached_tokens = first.num_computed_tokens;
  reserve_growth(state_, first);
  state_.queues.note_first_admission(group, first.num_left());
  if (state_.config.enable_prefix_caching && group.reads_prefix_cache()) {
    state_.totals.prefix_queried_tokens += group.num_prompt_tokens;
    state_.totals.prefix_hit_tokens += group.num_cached_tokens;
  }
}

// True if the request now waits for the disk. The first of its samples loads the prompt for all.
bool Admission::begin_loading(SequenceGroup& group, StepState& step) {
  if (!state_.kv.has_disk() || group.num_running > 0) return false;
  if (group.request.sampling->wants_prompt_logprobs()) return false;
  if (state_.requests.num_slots_taken() + slots_wanted(group) > state_.config.max_num_seqs) return false;
  const auto first = std::find_if(group.samples.begin(), group.samples.end(), [](const Sequence& sample) {
    return sample.state == SequenceState::kWaiting;
  });
  if (first->num_computed_tokens > 0) return false;
  find_prefix(*first);
  if (!state_.kv.load_from_disk(first->table, first->token_ids, match_, step.plan.disk_reads)) return false;
  state_.queues.begin_loading(group);
  ++state_.totals.num_loads;
  return true;
}

void Admission::requeue_loaded() {
  state_.queues.requeue_loaded([this](const SequenceGroup& group) {
    return std::none_of(group.samples.begin(), group.samples.end(), [this](const Sequence& sample) {
      return sample.state == SequenceState::kWaiting && state_.kv.loading(sample.table);
    });
  });
}

}  // namespace quire
