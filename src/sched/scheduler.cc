#include "sched/scheduler.h"

#include <utility>

#include "base/strings.h"
#include "sched/sample_lifecycle.h"

namespace quire {

Scheduler::Scheduler(const SchedulerConfig& config, const KvLayout& layout)
    : state_(config, layout), planner_(state_), committer_(state_) {}

Scheduler::~Scheduler() {
  // Records must not be in an intrusive list when they are destroyed.
  for (const auto& [id, group] : state_.requests.groups()) {
    if (WaitingQueue::contains(*group)) state_.queues.remove_waiting(*group);
  }
}

Status Scheduler::add_request(Request request, std::optional<int64_t> place) {
  if (state_.requests.find_group(request.id) != nullptr)
    return Failure{ErrorKind::kInternal, cat("There is already a request with the id ", request.id, "."), {}};
  if (Status status = check(request); !status.ok()) return status;
  SequenceGroup& group = state_.requests.add(std::move(request), place);
  group.samples.front().table = state_.kv.open(group.request.adapter.digest, group.request.cache_salt);
  state_.queues.enter(group, state_.totals.num_steps);
  state_.adapters.enter(group, state_.totals.num_steps);
  state_.queues.push_waiting(group);
  return {};
}

void Scheduler::abort_request(RequestId request) {
  SequenceGroup* group = state_.requests.find_group(request);
  if (group == nullptr) return;
  for (Sequence& sample : group->samples) end_from_outside(state_, sample);
  erase_if_finished(state_, *group);
}

void Scheduler::finish_sequence(RequestId request, int32_t index) {
  SequenceGroup* group = state_.requests.find_group(request);
  if (group == nullptr || index < 0 || index >= group->num_sequences()) return;
  Sequence& sample = group->samples[static_cast<size_t>(index)];
  if (sample.finished || group->uses_beam_search()) return;
  if (index == 0 && !group->forked && group->num_unfinished > 1) {
    // The other samples are still to be forked from it: it continues without output until then.
    sample.suppress_output = true;
    mark_finished(sample);
    return;
  }
  end_from_outside(state_, sample);
  if (group->num_unfinished == 0) abort_request(request);
}

bool Scheduler::has_work() const {
  return step_.uncommitted || !state_.queues.empty() || !state_.finished_seqs.empty() ||
         state_.kv.has_disk_writes();
}

const StepPlan& Scheduler::schedule(double now) {
  planner_.plan(step_, now);
  return step_.plan;
}

const CommitResult& Scheduler::commit(const StepResult& result) {
  return committer_.commit(step_, result);
}

void Scheduler::finish_disk_io(std::span<const DiskOutcome> outcomes) {
  for (const DiskOutcome& outcome : outcomes) state_.kv.finish_disk_io(outcome);
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = state_.totals;
  stats.num_running = static_cast<int32_t>(state_.queues.running().size());
  stats.num_waiting = state_.requests.num_waiting;
  stats.num_loading = static_cast<int32_t>(state_.queues.loading().size());
  stats.kv = state_.kv.stats();
  const double held = committer_.held_slots();
  stats.mean_kv_waste = held > 0.0 ? committer_.wasted_slots() / held : 0.0;
  return stats;
}

int32_t Scheduler::num_cached_tokens(RequestId request) const {
  const SequenceGroup* group = state_.requests.find_group(request);
  return group != nullptr ? group->num_cached_tokens : committer_.num_cached_tokens(request);
}

RequestId Scheduler::request_of(SeqId seq) const {
  const Sequence* sequence = state_.requests.find_sequence(seq);
  return sequence == nullptr ? -1 : sequence->group->id;
}

void Scheduler::preempted_requests(std::vector<RequestId>& requests) const {
  requests.clear();
  for (const auto& [id, group] : state_.requests.groups()) {
    if (group->started && group->num_running == 0 && group->num_waiting > 0) requests.push_back(id);
  }
}

bool Scheduler::reset_prefix_cache() {
  const bool unused = state_.kv.stats().num_used == 0;
  state_.kv.reset_prefix_cache();
  return unused;
}

}  // namespace quire
