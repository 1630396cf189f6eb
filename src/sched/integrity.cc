// Scheduler::check_integrity(): what holds between any two calls.
#include <algorithm>

#include "base/strings.h"
#include "sched/scheduler.h"

namespace quire {

void Scheduler::check_integrity() const {
  state_.kv.check_integrity();
  state_.queues.check_integrity();
  state_.adapters.check_integrity();
  int32_t num_waiting = 0;
  int32_t num_running = 0;
  int32_t num_slots = 0;
  size_t num_held = 0;
  for (const auto& [id, group] : state_.requests.groups()) {
    check_group(*group);
    num_waiting += group->num_waiting;
    num_running += group->num_running;
    num_slots += group->num_slots;
    num_held += static_cast<size_t>(group->num_held);
  }
  const int32_t num_counted = state_.requests.num_slots_taken();
  if (num_slots != num_counted || num_slots > state_.config.max_num_seqs) {
    throw Error(cat("requests take ", num_slots, " slots, ", num_counted, " are counted; --max-num-seqs is ",
                    state_.config.max_num_seqs));
  }
  const size_t num_sequences = state_.requests.num_sequences();
  const size_t num_listed = state_.queues.running().size();
  if (num_held != num_sequences || static_cast<size_t>(num_running) != num_listed ||
      num_waiting != state_.requests.num_waiting) {
    throw Error(cat(num_held, " samples have block tables, ", num_sequences, " are known; ", num_running,
                    " run, ", num_listed, " are in the running list; ", num_waiting, " wait, ",
                    state_.requests.num_waiting, " are counted"));
  }
  if (num_held == 0 && state_.kv.stats().num_used != 0)
    throw Error("KV blocks are in use without any sequence");
}

void Scheduler::check_group(const SequenceGroup& group) const {
  const auto count = [&](auto holds) {
    return static_cast<int32_t>(std::count_if(group.samples.begin(), group.samples.end(), holds));
  };
  const int32_t held = count([](const Sequence& s) { return s.table >= 0; });
  const int32_t unfinished = count([](const Sequence& s) { return !s.finished; });
  const int32_t waiting = count([](const Sequence& s) { return s.state == SequenceState::kWaiting; });
  const int32_t running = count([](const Sequence& s) { return s.state == SequenceState::kRunning; });
  const int32_t awaiting = count([](const Sequence& s) { return s.awaits_prompt; });
  if (held != group.num_held || unfinished != group.num_unfinished || (held == 0 && unfinished == 0)) {
    throw Error(cat("request ", group.id, ": counts ", group.num_held, " samples with block tables and ",
                    group.num_unfinished, " unfinished ones, has ", held, " and ", unfinished));
  }
  if (waiting != group.num_waiting || running != group.num_running || awaiting != group.num_awaiting_prompt) {
    throw Error(cat("request ", group.id, ": counts ", group.num_waiting, " waiting samples, ",
                    group.num_running, " running ones and ", group.num_awaiting_prompt,
                    " that wait for a shared prompt, has ", waiting, ", ", running, " and ", awaiting));
  }
  if (WaitingQueue::contains(group) != (waiting > 0 && !group.loading))
    throw Error(
        cat("request ", group.id, ": in the waiting queue without waiting samples, or missing there"));
  const Sequence* source = group.prompt_sample;
  const bool computes_prompt = source != nullptr && source->state == SequenceState::kRunning &&
                               !source->awaits_prompt &&
                               source->num_computed_tokens < group.num_prompt_tokens;
  if (awaiting > 0 && !computes_prompt)
    throw Error(cat("request ", group.id, ": samples wait for a shared prompt that no sample computes"));
  if (group.admitted_early && group.num_running == 0)
    throw Error(cat("request ", group.id, ": was admitted early, but does not run"));
  const auto loading = state_.queues.loading();
  const bool listed = std::find(loading.begin(), loading.end(), &group) != loading.end();
  if (listed != group.loading || (listed && group.num_running > 0))
    throw Error(
        cat("request ", group.id, ": inconsistent with the list of requests that load from the disk"));
  for (const Sequence& sample : group.samples) {
    if (sample.table >= 0) check_sequence(sample);
  }
}

void Scheduler::check_sequence(const Sequence& sequence) const {
  const KvManager& kv = state_.kv;
  const bool swapped = kv.swapped_out(sequence.table);
  const bool waits = sequence.state == SequenceState::kWaiting;
  if (swapped != (waits && sequence.num_computed_tokens > 0))
    throw Error(cat("sequence ", sequence.id, ": swapped out although it runs, or the reverse"));
  const bool holds_nothing = sequence.state != SequenceState::kRunning || sequence.awaits_prompt;
  if (holds_nothing && !kv.block_table(sequence.table, 0).empty())
    throw Error(cat("sequence ", sequence.id, ": holds blocks although it does not run"));
  if (holds_nothing && !swapped && sequence.num_computed_tokens > 0)
    throw Error(cat("sequence ", sequence.id, ": has computed tokens although it holds no blocks"));
  if (kv.num_computed(sequence.table) != sequence.num_computed_tokens && !sequence.in_flight)
    throw Error(cat("sequence ", sequence.id, ": its block tables count ", kv.num_computed(sequence.table),
                    " computed tokens, the sequence ", sequence.num_computed_tokens));
}

}  // namespace quire
