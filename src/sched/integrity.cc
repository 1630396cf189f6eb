// What must hold between any two calls of the scheduler.
#include <algorithm>

#include "base/strings.h"
#include "sched/scheduler.h"

namespace quire {

void Scheduler::check_integrity() const {
  kv_.check_integrity();
  clients_.check_integrity();
  check_running();
  int32_t num_waiting = 0;
  int32_t num_running = 0;
  int32_t num_seats = 0;
  size_t num_held = 0;
  for (const auto& [id, group] : groups_) {
    check_group(*group);
    num_waiting += group->num_waiting;
    num_running += group->num_running;
    num_seats += group->num_seats;
    num_held += static_cast<size_t>(group->num_held);
  }
  if (num_seats != num_seats_taken_ || num_seats > config_.max_num_seqs) {
    throw Error(cat(num_seats, " seats are taken, counted are ", num_seats_taken_, " of ",
                    config_.max_num_seqs, "."));
  }
  if (num_held != sequences_.size() || static_cast<size_t>(num_running) != running_.size() ||
      num_waiting != num_waiting_) {
    throw Error(cat(num_held, " sequences hold a table, ", sequences_.size(), " are known; ", num_running,
                    " run, listed are ", running_.size(), "; ", num_waiting, " wait, counted are ",
                    num_waiting_, "."));
  }
  if (num_held == 0 && kv_.stats().num_used != 0)
    throw Error("No sequence is left, and KV blocks are still used.");
}

void Scheduler::check_running() const {
  for (size_t i = 0; i < running_.size(); ++i) {
    const Sequence& sequence = *running_[i];
    if (sequence.state != SequenceState::kRunning)
      throw Error(cat("Sequence ", sequence.id, " runs and should not."));
    if (i > 0 && !served_before(*running_[i - 1], sequence))
      throw Error("The running sequences are out of order.");
  }
}

void Scheduler::check_group(const SequenceGroup& group) const {
  const auto count = [&](auto holds) {
    return static_cast<int32_t>(std::count_if(group.samples.begin(), group.samples.end(), holds));
  };
  const int32_t born = count([](const Sequence& s) { return s.table >= 0; });
  const int32_t alive = count([](const Sequence& s) { return !s.over; });
  const int32_t waiting = count([](const Sequence& s) { return s.state == SequenceState::kWaiting; });
  const int32_t running = count([](const Sequence& s) { return s.state == SequenceState::kRunning; });
  const int32_t followers = count([](const Sequence& s) { return s.follows; });
  if (born != group.num_held || alive != group.num_alive || (born == 0 && alive == 0)) {
    throw Error(cat("Request ", group.id, " counts ", group.num_held, " held and ", group.num_alive,
                    " open samples, has ", born, " and ", alive, "."));
  }
  if (waiting != group.num_waiting || running != group.num_running || followers != group.num_followers ||
      WaitingQueue::contains(group) != (waiting > 0 && !group.loading)) {
    throw Error(cat("Request ", group.id, " counts ", group.num_waiting, " waiting, ", group.num_running,
                    " running and ", group.num_followers, " following samples, has ", waiting, ", ", running,
                    " and ", followers, "."));
  }
  const bool led = group.leader != nullptr && group.leader->state == SequenceState::kRunning &&
                   !group.leader->follows && group.leader->num_computed_tokens < group.num_prompt_tokens;
  if (followers > 0 && !led) throw Error(cat("Request ", group.id, " has samples that follow nobody."));
  const bool listed = std::find(loading_.begin(), loading_.end(), &group) != loading_.end();
  if (listed != group.loading || (listed && group.num_running > 0))
    throw Error(cat("Request ", group.id, " waits for the disk and does not stand where it belongs."));
  for (const Sequence& sample : group.samples) {
    if (sample.table >= 0) check_sequence(sample);
  }
}

void Scheduler::check_sequence(const Sequence& sequence) const {
  const bool swapped = kv_.swapped_out(sequence.table);
  const bool waits = sequence.state == SequenceState::kWaiting;
  if (swapped != (waits && sequence.num_computed_tokens > 0))
    throw Error(cat("Sequence ", sequence.id, " is swapped out and should not be, or the other way round."));
  const bool holds_nothing = sequence.state != SequenceState::kRunning || sequence.follows;
  if (holds_nothing && !kv_.block_table(sequence.table, 0).empty())
    throw Error(cat("Sequence ", sequence.id, " does not run and holds blocks."));
  if (holds_nothing && !swapped && sequence.num_computed_tokens > 0)
    throw Error(cat("Sequence ", sequence.id, " does not run and claims computed tokens."));
  if (kv_.num_computed(sequence.table) != sequence.num_computed_tokens && !sequence.in_flight)
    throw Error(cat("Sequence ", sequence.id, " and its table count different computed tokens."));
}

}  // namespace quire
