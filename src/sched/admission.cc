// Who joins those that run and who gives way: whole groups.
//
// The samples of a request that run again after a preemption hold their prompt once, as before: one of them,
// the leader, computes the prompt, and the others follow it, with empty tables, until they are forked from it
// at the prompt's end. A sample whose prompt is still in the prefix cache starts on its own.
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
    if (group == nullptr || waits_for_disk(*group)) return;
    const int32_t threshold = config_.long_prefill_token_threshold;
    const int32_t chunk = std::min(budget_ - decodes_left_, threshold > 0 ? threshold : budget_);
    if (chunk < 1 && !in_flight_.empty()) return;
    const size_t count = num_placeable(*group, chunk);
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
    if (group == nullptr || !outranked() || waits_for_disk(*group)) return;
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
  int64_t needed = kv_.num_blocks() / kReservedPart;
  for (const Sequence& sample : group.samples) {
    if (sample.state != SequenceState::kWaiting) continue;
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
  const bool reads_cache = !sequence.group->sampling.prompt_logprobs.has_value();
  const std::span<const TokenId> known(sequence.token_ids);
  kv_.find_prefix(sequence.table, reads_cache ? known : known.first(0), match_);
}

// Whether more of the group's prefix is on its way from the disk. Those behind it wait with it: it takes a
// moment, and they may want the same.
bool Scheduler::waits_for_disk(SequenceGroup& group) {
  if (!kv_.has_disk()) return false;
  for (const Sequence& sample : group.samples) {
    if (sample.state != SequenceState::kWaiting || kv_.swapped_out(sample.table)) continue;
    if (kv_.loading(sample.table)) return true;
    // The samples have their prompt together: the first brings it up for all.
    find_prefix(sample);
    return kv_.load_from_disk(sample.table, sample.token_ids, match_, plan_.disk_reads);
  }
  return false;
}

// Tokens of the prompt that stand in full blocks: those the samples hold together.
int32_t Scheduler::shared_prompt(const SequenceGroup& group) const {
  return group.num_prompt_tokens / kv_.block_size() * kv_.block_size();
}

int64_t Scheduler::blocks_to_follow(const Sequence& sequence) {
  const int32_t shared = shared_prompt(*sequence.group);
  shared_match_.num_tokens = shared;
  shared_match_.blocks.resize(static_cast<size_t>(kv_.num_groups()));
  for (auto& blocks : shared_match_.blocks)
    blocks.assign(static_cast<size_t>(shared / kv_.block_size()), CachedBlock{});
  return kv_.blocks_to_start(shared_match_, sequence.num_tokens(), config_.max_num_batched_tokens);
}

// How many of the group's waiting samples may run: all or none while others run. A prompt of more than
// `free_chunk` tokens counts as computed in chunks. Leaves the samples in gang_.
size_t Scheduler::num_placeable(SequenceGroup& group, int32_t free_chunk) {
  if (num_seats_taken_ + seats_wanted(group) > config_.max_num_seqs) return 0;
  gang_.clear();
  for (Sequence& sample : group.samples) {
    if (sample.state == SequenceState::kWaiting) gang_.push_back(&sample);
  }
  const bool rejoins = group.num_running > 0;
  const bool alone = runs_alone(group);
  int64_t needed =
      running_.empty() ? 0 : kv_.num_blocks() / kReservedPart + (rejoins ? group.num_running : 0);
  bool led = rejoins || gang_.size() == 1;
  size_t count = 0;
  for (const Sequence* sample : gang_) {
    find_prefix(*sample);
    const bool prompt_cached = match_.num_tokens >= shared_prompt(group);
    if (led && !rejoins && gang_.size() > 1 && !prompt_cached) {
      needed += blocks_to_follow(*sample);
    } else {
      needed += kv_.blocks_to_start(match_, sample->num_tokens(), config_.max_num_batched_tokens);
      if (!prompt_cached) led = true;
    }
    // What fits alone at all fits now. Beams fit all together (check_blocks()).
    const bool first_of_all = running_.empty() && (count == 0 || group.beams());
    if (needed > kv_.num_free() && !first_of_all) break;
    if (count == 0 && config_.max_num_partial_prefills > 0 && !first_of_all &&
        sample->num_tokens() - match_.num_tokens > free_chunk &&
        num_partial_ >= config_.max_num_partial_prefills) {
      return 0;
    }
    ++count;
  }
  return count == gang_.size() || alone ? count : 0;
}

// Lets the first `count` samples of gang_ run, from what is cached of them.
void Scheduler::place(SequenceGroup& group, size_t count) {
  const bool shares_prompt = group.num_running == 0 && gang_.size() > 1;
  remove_waiting(group);
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
  find_prefix(sequence);
  if (shares_prompt && match_.num_tokens < shared_prompt(group) && group.leader != nullptr) {
    sequence.follows = true;
    ++group.num_followers;
  } else {
    start_from_cache(sequence);
    if (shares_prompt && sequence.num_computed_tokens < shared_prompt(group)) group.leader = &sequence;
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
  if (config_.enable_prefix_caching && !group.sampling.prompt_logprobs.has_value()) {
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

// The group served last gives its place up.
void Scheduler::preempt_last() {
  SequenceGroup& group = *running_.back()->group;
  while (!running_.empty() && running_.back()->group == &group) set_aside_last();
  ++totals_.num_preemptions;
}

// The sample served last gives its place up.
void Scheduler::set_aside_last() {
  Sequence& sequence = *running_.back();
  SequenceGroup& group = *sequence.group;
  running_.pop_back();
  kv_.clear(sequence.table);
  sequence.num_computed_tokens = 0;
  sequence.state = SequenceState::kWaiting;
  --group.num_running;
  ++group.num_waiting;
  ++num_waiting_;
  if (sequence.follows) {
    sequence.follows = false;
    --group.num_followers;
  } else if (group.leader == &sequence) {
    // Its followers stood behind it and are gone already.
    group.leader = nullptr;
  }
  update_seats(group);
  if (!WaitingQueue::contains(group)) push_waiting(group);
  preempted_this_step_ = true;
}

// The leader has computed the prompt.
void Scheduler::fork_followers(SequenceGroup& group) {
  for (Sequence& sample : group.samples) {
    if (!sample.follows) continue;
    sample.follows = false;
    kv_.close(sample.table);
    sample.table = kv_.fork(group.leader->table);
    kv_.resend(sample.table);
    sample.num_computed_tokens = group.leader->num_computed_tokens;
    reserve_growth(sample);
  }
  group.num_followers = 0;
  group.leader = nullptr;
}

// The leader is gone before it computed the prompt: the first of its followers takes over, from the
// beginning.
void Scheduler::appoint_leader(SequenceGroup& group) {
  group.leader = nullptr;
  if (group.num_followers == 0) return;
  for (Sequence& sample : group.samples) {
    if (!sample.follows) continue;
    sample.follows = false;
    --group.num_followers;
    if (group.num_followers > 0) group.leader = &sample;
    return;
  }
}

}  // namespace quire
