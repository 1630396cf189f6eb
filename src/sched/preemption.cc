#include "sched/preemption.h"

#include <algorithm>

namespace quire {

namespace {

// Estimates for PreemptionMode::kAuto: bytes per second between the pools, and seconds to compute a token
// until steps have been measured.
constexpr double kCopyBytesPerSecond = 4e9;
constexpr double kSecondsPerToken = 1e-4;

}  // namespace

void Preemption::preempt_last_request(StepState& step) {
  const RequestQueues& queues = state_.queues;
  SequenceGroup& group = *queues.running().back()->group;
  bool swapped = prefers_swap(group);
  if (swapped) {
    tables_.clear();
    for (const Sequence& sample : group.samples) {
      if (sample.state == SequenceState::kRunning && sample.num_computed_tokens > 0)
        tables_.push_back(sample.table);
    }
    swapped = !tables_.empty() && state_.kv.swap_out(tables_, step.plan.copies);
  }
  while (!queues.running().empty() && queues.running().back()->group == &group)
    preempt_last_sample(step, swapped);
  ++state_.totals.num_preemptions;
  if (swapped) ++state_.totals.num_swap_outs;
}

// Compares the time to copy the blocks out and back with the time to recompute the tokens. The prompt that
// samples share counts once.
bool Preemption::prefers_swap(const SequenceGroup& group) const {
  // Samples that await their prompt hold nothing yet, and are forked where they run.
  if (state_.config.preemption_mode == PreemptionMode::kRecompute || group.num_awaiting_prompt > 0 ||
      group.must_share_prompt)
    return false;
  if (state_.config.preemption_mode == PreemptionMode::kSwap) return true;
  int64_t num_tokens = 0;
  int64_t num_slots = 0;  // over all attention groups
  int64_t num_state_blocks = 0;
  int32_t num_shared = 0;
  for (const Sequence& sample : group.samples) {
    if (sample.state != SequenceState::kRunning) continue;
    const int32_t num_own = sample.num_computed_tokens - std::min(num_shared, sample.num_computed_tokens);
    num_tokens += num_own;
    for (const KvGroupSpec& kv_group : state_.kv_groups) {
      if (!is_attention_group(kv_group)) {
        ++num_state_blocks;
        continue;
      }
      const int64_t first = first_visible_position(kv_group, sample.num_computed_tokens);
      num_slots += std::min<int64_t>(num_own, sample.num_computed_tokens - first);
    }
    num_shared = group.num_prompt_tokens;
  }
  const double num_blocks =
      static_cast<double>(num_slots) / state_.kv.block_size() + static_cast<double>(num_state_blocks);
  const double copying = 2.0 * num_blocks * static_cast<double>(state_.bytes_per_block) / kCopyBytesPerSecond;
  const StepClock& clock = state_.step_clock;
  const double per_token = clock.ready() ? clock.seconds_per_token() : kSecondsPerToken;
  return copying <= static_cast<double>(num_tokens) * per_token;
}

void Preemption::preempt_last_sample(StepState& step, bool swapped) {
  Sequence& sequence = *state_.queues.running().back();
  SequenceGroup& group = *sequence.group;
  state_.queues.pop_running();
  end_early_admission(group, step);
  // A sample without computed tokens is not swapped out, but may have blocks that this step allocated for it.
  if (!swapped || sequence.num_computed_tokens == 0) {
    state_.kv.clear(sequence.table);
    sequence.num_computed_tokens = 0;
  }
  sequence.state = SequenceState::kWaiting;
  --group.num_running;
  ++group.num_waiting;
  ++state_.requests.num_waiting;
  if (sequence.awaits_prompt) {
    sequence.awaits_prompt = false;
    --group.num_awaiting_prompt;
  } else if (group.prompt_sample == &sequence) {
    // The samples that awaited it came later in the running list and are preempted already.
    group.prompt_sample = nullptr;
  }
  state_.requests.update_slots(group);
  if (!WaitingQueue::contains(group)) state_.queues.push_waiting(group);
  step.preempted = true;
}

}  // namespace quire
