// Who gives way, and how a request that did comes back: whole groups.
//
// Its blocks move to the host pool and back, or are forgotten and computed again. Samples that compute again
// hold their prompt once, as before: one of them, the leader, computes the prompt, and the others follow it,
// with empty tables, until they are forked from it at the prompt's end. A sample whose prompt is still in the
// prefix cache starts on its own.
#include <algorithm>

#include "sched/scheduler.h"

namespace quire {

namespace {

// What PreemptionMode::kAuto reckons with: bytes a second between the pools, and the seconds to compute a
// token until steps were measured.
constexpr double kCopyBytesPerSecond = 4e9;
constexpr double kSecondsPerToken = 1e-4;

}  // namespace

// The group served last gives its place up.
void Scheduler::preempt_last() {
  SequenceGroup& group = *running_.back()->group;
  bool swapped = wants_swap(group);
  if (swapped) {
    swapped_.clear();
    for (const Sequence& sample : group.samples) {
      if (sample.state == SequenceState::kRunning && sample.num_computed_tokens > 0)
        swapped_.push_back(sample.table);
    }
    swapped = !swapped_.empty() && kv_.swap_out(swapped_, plan_.copies);
  }
  while (!running_.empty() && running_.back()->group == &group) set_aside_last(swapped);
  ++totals_.num_preemptions;
  if (swapped) ++totals_.num_swap_outs;
}

// Moving to the host and back against computing again, what the samples share counted once.
bool Scheduler::wants_swap(const SequenceGroup& group) const {
  // Those who follow hold nothing yet, and are forked where they follow to.
  if (config_.preemption_mode == PreemptionMode::kRecompute || group.num_followers > 0) return false;
  if (config_.preemption_mode == PreemptionMode::kSwap) return true;
  int64_t num_tokens = 0;
  int32_t num_shared = 0;
  int64_t num_state_blocks = 0;
  for (const Sequence& sample : group.samples) {
    if (sample.state != SequenceState::kRunning) continue;
    num_state_blocks += num_state_groups_;
    num_tokens += sample.num_computed_tokens - std::min(num_shared, sample.num_computed_tokens);
    num_shared = group.num_prompt_tokens;
  }
  const auto growing = static_cast<double>(kv_.num_groups() - num_state_groups_);
  const double num_blocks =
      static_cast<double>(num_tokens) / kv_.block_size() * growing + static_cast<double>(num_state_blocks);
  const double copying = 2.0 * num_blocks * static_cast<double>(bytes_per_block_) / kCopyBytesPerSecond;
  const double per_token = step_clock_.ready() ? step_clock_.seconds_per_token() : kSecondsPerToken;
  return copying <= static_cast<double>(num_tokens) * per_token;
}

// The sample served last gives its place up.
void Scheduler::set_aside_last(bool swapped) {
  Sequence& sequence = *running_.back();
  SequenceGroup& group = *sequence.group;
  running_.pop_back();
  if (!swapped) {
    kv_.clear(sequence.table);
    sequence.num_computed_tokens = 0;
  }
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

// A waiting request whose prefix is on the disk waits for it outside of the queue, so that others pass it.
// The first of its samples brings the prompt up for all.
bool Scheduler::begin_loading(SequenceGroup& group) {
  if (!kv_.has_disk() || group.num_running > 0 || group.sampling.prompt_logprobs.has_value()) return false;
  if (num_seats_taken_ + seats_wanted(group) > config_.max_num_seqs) return false;
  const auto first = std::find_if(group.samples.begin(), group.samples.end(), [](const Sequence& sample) {
    return sample.state == SequenceState::kWaiting;
  });
  if (first->num_computed_tokens > 0) return false;
  find_prefix(*first);
  if (!kv_.load_from_disk(first->table, first->token_ids, match_, plan_.disk_reads)) return false;
  remove_waiting(group);
  group.loading = true;
  loading_.push_back(&group);
  ++totals_.num_loads;
  return true;
}

// Those whose blocks have come from the disk, all or not, stand in the queue again.
void Scheduler::take_loaded() {
  if (loading_.empty()) return;
  std::erase_if(loading_, [this](SequenceGroup* group) {
    const bool loads =
        std::any_of(group->samples.begin(), group->samples.end(), [this](const Sequence& sample) {
          return sample.state == SequenceState::kWaiting && kv_.loading(sample.table);
        });
    if (loads) return false;
    group->loading = false;
    push_waiting(*group);
    return true;
  });
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
