// Who joins those that run: whole groups. Who gives way for them: sched/preemption.cc.
#include <algorithm>

#include "base/strings.h"
#include "sched/scheduler.h"

namespace quire {

namespace {

// While others run, a waiting group is admitted only if this part of the pool stays free behind its last
// known token: those who run need blocks to go on, and would throw it out again.
constexpr int32_t kReservedPart = 100;

}  // namespace

void Scheduler::admit_waiting() {
  while (budget_ > 0 && !preempted_this_step_) {
    SequenceGroup* group = waiting_.front();
    if (group == nullptr) return;
    const int32_t threshold = config_.long_prefill_token_threshold;
    const int32_t chunk = std::min(budget_ - decodes_left_, threshold > 0 ? threshold : budget_);
    if (chunk < 1 && !in_flight_.empty()) return;
    if (config_.whole_prompts && group->num_prompt_tokens > budget_) return;
    const size_t count = num_placeable(*group, chunk);
    if (begin_loading(*group)) continue;
    if (count == 0) return;
    place(*group, count);
    const Sequence& first = *gang_.front();
    plan_group(index_of(*group));
    if (first.num_planned_tokens < first.num_left()) ++num_partial_;
  }
}

// A waiting group of a lower level takes the place of running ones of higher levels: nothing is planned yet.
void Scheduler::make_way() {
  if (config_.policy != SchedulingPolicy::kPriority && config_.policy != SchedulingPolicy::kMlfq) return;
  while (!running_.empty()) {
    SequenceGroup* group = waiting_.front();
    const auto outranked = [&] {
      return !running_.empty() && group->rank.level < running_.back()->group->rank.level;
    };
    if (group == nullptr || !outranked()) return;
    if (begin_loading(*group)) continue;
    size_t count = num_placeable(*group, 1);
    if (count == 0 && !worth_clearing(*group)) return;
    while (count == 0 && outranked()) {
      preempt_last();
      count = num_placeable(*group, 1);
    }
    if (count == 0) return;
    place(*group, count);
    if (gang_.front()->num_left() > 1) ++num_partial_;
  }
}

// Whether the group could have its place when all of higher levels gave theirs up. Blocks that several of
// them share are counted for each, so it may turn out to be too little.
bool Scheduler::worth_clearing(const SequenceGroup& group) {
  int32_t seats = num_seats_taken_ + seats_wanted(group);
  int64_t blocks = kv_.num_free();
  const SequenceGroup* previous = nullptr;
  for (size_t i = running_.size(); i-- > 0;) {
    const SequenceGroup& victim = *running_[i]->group;
    if (victim.rank.level <= group.rank.level) break;
    if (&victim != previous) seats -= victim.num_seats;
    previous = &victim;
    for (int32_t g = 0; g < kv_.num_groups(); ++g)
      blocks += static_cast<int64_t>(kv_.block_table(running_[i]->table, g).size());
  }
  int64_t needed = kv_.num_blocks() / kReservedPart + blocks_to_swap_in(group);
  for (const Sequence& sample : group.samples) {
    if (sample.state != SequenceState::kWaiting || !swapped_.empty()) continue;
    find_prefix(sample);
    needed += kv_.blocks_to_start(match_, sample.num_tokens(), config_.max_num_batched_tokens);
    break;
  }
  const bool prompt_may_start =
      config_.max_num_partial_prefills <= 0 || num_partial_ < config_.max_num_partial_prefills;
  return seats <= config_.max_num_seqs && needed <= blocks && prompt_may_start;
}

// Of the samples that wait.
int32_t Scheduler::seats_wanted(const SequenceGroup& group) {
  return group.forked && !group.beams() ? group.num_waiting : group.num_sequences();
}

// Samples have their seats before they are born, and beams as long as one is open.
void Scheduler::update_seats(SequenceGroup& group) {
  const bool all = group.num_running > 0 && (!group.forked || group.beams());
  const int32_t num_seats = all ? group.num_sequences() : group.num_running;
  num_seats_taken_ += num_seats - group.num_seats;
  group.num_seats = num_seats;
}

// Only samples of this group run, or none at all.
bool Scheduler::runs_alone(const SequenceGroup& group) const {
  return running_.empty() || (running_.front()->group == &group && running_.back()->group == &group);
}

void Scheduler::find_prefix(const Sequence& sequence) {
  // Log-probabilities of the prompt come from computing it.
  // So do vectors that are made of all of its tokens.
  const SequenceGroup& group = *sequence.group;
  const bool whole = group.pooling && group.pooling->all_tokens;
  const bool reads_cache = !whole && !group.sampling.prompt_logprobs.has_value();
  const std::span<const TokenId> known(sequence.token_ids);
  kv_.find_prefix(sequence.table, reads_cache ? known : known.first(0), match_);
}

// Tokens of the prompt that stand in full blocks: those the samples hold together.
int32_t Scheduler::shared_prompt(const SequenceGroup& group) const {
  return group.num_prompt_tokens / kv_.block_size() * kv_.block_size();
}

// Blocks that a sequence with slots for `num_tokens` tokens still takes until all its tokens are computed.
int64_t Scheduler::blocks_beyond(const Sequence& sequence, int32_t num_tokens) {
  const int32_t num_blocks = num_tokens / kv_.block_size();
  held_match_.num_tokens = num_blocks * kv_.block_size();
  held_match_.blocks.resize(static_cast<size_t>(kv_.num_groups()));
  for (auto& blocks : held_match_.blocks) blocks.assign(static_cast<size_t>(num_blocks), CachedBlock{});
  return kv_.blocks_to_start(held_match_, sequence.num_tokens(), config_.max_num_batched_tokens);
}

// Of all samples that are swapped out, with what they take until their tokens are computed. Leaves their
// tables in swapped_.
int64_t Scheduler::blocks_to_swap_in(const SequenceGroup& group) {
  swapped_.clear();
  int64_t needed = 0;
  for (const Sequence& sample : group.samples) {
    if (sample.state != SequenceState::kWaiting || sample.num_computed_tokens == 0) continue;
    swapped_.push_back(sample.table);
    needed += blocks_beyond(sample, sample.num_computed_tokens);
  }
  return swapped_.empty() ? 0 : needed + kv_.blocks_to_swap_in(swapped_);
}

// How many of the group's waiting samples may run: all or none while others run. A prompt of more than
// `free_chunk` tokens counts as computed in chunks. Leaves the samples in gang_.
size_t Scheduler::num_placeable(SequenceGroup& group, int32_t free_chunk) {
  if (num_seats_taken_ + seats_wanted(group) > config_.max_num_seqs) return 0;
  gang_.clear();
  for (const bool swapped : {true, false}) {
    for (Sequence& sample : group.samples) {
      if (sample.state == SequenceState::kWaiting && (sample.num_computed_tokens > 0) == swapped)
        gang_.push_back(&sample);
    }
  }
  const bool alone = runs_alone(group);
  int64_t needed = running_.empty() ? 0 : kv_.num_blocks() / kReservedPart + group.num_running;
  needed += blocks_to_swap_in(group);
  // What was swapped out together fits together when nothing else runs.
  if (!swapped_.empty() && needed > kv_.num_free() && !running_.empty()) return 0;
  const bool shares_prompt = group.num_running == 0 && gang_.size() > 1 && swapped_.empty();
  bool led = false;
  size_t count = swapped_.size();
  for (; count < gang_.size(); ++count) {
    const Sequence& sample = *gang_[count];
    find_prefix(sample);
    const bool prompt_cached = match_.num_tokens >= shared_prompt(group);
    needed += shares_prompt && led && !prompt_cached
                  ? blocks_beyond(sample, shared_prompt(group))
                  : kv_.blocks_to_start(match_, sample.num_tokens(), config_.max_num_batched_tokens);
    led = led || !prompt_cached;
    // What fits alone at all fits now. Beams fit all together (check_blocks()).
    const bool first_of_all = running_.empty() && (count == 0 || group.beams());
    if (needed > kv_.num_free() && !first_of_all) break;
    if (count == 0 && config_.max_num_partial_prefills > 0 && !first_of_all &&
        sample.num_tokens() - match_.num_tokens > free_chunk &&
        num_partial_ >= config_.max_num_partial_prefills) {
      return 0;
    }
  }
  return count == gang_.size() || alone ? count : 0;
}

// Lets the first `count` samples of gang_ run, from what is swapped out or cached of them.
void Scheduler::place(SequenceGroup& group, size_t count) {
  const bool shares_prompt = group.num_running == 0 && gang_.size() > 1 && swapped_.empty();
  remove_waiting(group);
  if (!swapped_.empty()) {
    if (!kv_.swap_in(swapped_, plan_.copies))
      throw Error(cat("Request ", group.id, " does not fit where it ran before."));
    ++totals_.num_swap_ins;
  }
  for (size_t i = 0; i < count; ++i) place_sample(*gang_[i], shares_prompt);
  if (group.num_followers == 0) group.leader = nullptr;
  update_seats(group);
  if (!group.started) start_group(group);
  // Behind start_group(): the queue of those who ran is another one.
  if (group.num_waiting > 0) push_waiting(group);
  for (size_t i = 0; i < count; ++i) insert_running(*gang_[i]);
}

void Scheduler::place_sample(Sequence& sequence, bool shares_prompt) {
  SequenceGroup& group = *sequence.group;
  if (sequence.num_computed_tokens == 0) {
    find_prefix(sequence);
    if (shares_prompt && match_.num_tokens < shared_prompt(group) && group.leader != nullptr) {
      sequence.follows = true;
      ++group.num_followers;
    } else {
      start_from_cache(sequence);
      if (shares_prompt && sequence.num_computed_tokens < shared_prompt(group)) group.leader = &sequence;
    }
  }
  sequence.state = SequenceState::kRunning;
  --group.num_waiting;
  --num_waiting_;
  ++group.num_running;
}

// Takes the blocks of match_.
void Scheduler::start_from_cache(Sequence& sequence) {
  if (!kv_.start(sequence.table, match_, match_.num_tokens, plan_.copies))
    throw Error(cat("Sequence ", sequence.id, " cannot take the cached blocks that were found."));
  sequence.num_computed_tokens = match_.num_tokens;
}

void Scheduler::start_group(SequenceGroup& group) {
  Sequence& first = group.samples.front();
  group.started = true;
  --num_never_started_;
  group.num_cached_tokens = first.num_computed_tokens;
  started_.push_back(group.id);
  reserve_growth(first);
  if (config_.policy == SchedulingPolicy::kFair) {
    group.rank = {0, next_admission_++};
    ClientTable::charge(group, ClientTable::kInputWeight * first.num_left());
  }
  const bool whole = group.pooling && group.pooling->all_tokens;
  if (config_.enable_prefix_caching && !whole && !group.sampling.prompt_logprobs.has_value()) {
    totals_.prefix_queried_tokens += group.num_prompt_tokens;
    totals_.prefix_hit_tokens += group.num_cached_tokens;
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
  const auto at =
      std::upper_bound(running_.begin(), running_.end(), &sequence,
                       [](const Sequence* a, const Sequence* b) { return served_before(*a, *b); });
  running_.insert(at, &sequence);
}

size_t Scheduler::index_of(const SequenceGroup& group) const {
  const auto at = std::partition_point(running_.begin(), running_.end(), [&](const Sequence* sequence) {
    return sequence->group->rank < group.rank;
  });
  return static_cast<size_t>(at - running_.begin());
}

}  // namespace quire
