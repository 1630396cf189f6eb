// Decides in every step which tokens are computed: continuous batching with one token budget.
//
// There is no prefill phase and no decode phase. A sequence has num_computed_tokens and num_tokens, and each
// step lets the former catch up with the latter; a chunk that reaches the last known token samples the next
// one. Chunked prefill, prefix hits, n samples, preemption and resumption all follow from this rule.
//
// One step:   plan = schedule();   the executor computes it;   commit(result);
// abort_request, finish_sequence and add_request may be called at any time, also between the two. Engine
// thread only.
//
// The work is done by StepPlanner (with Admission and Preemption) and Committer, on the data in
// SchedulerState.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "sched/committer.h"
#include "sched/request_check.h"
#include "sched/scheduler_state.h"
#include "sched/scheduler_types.h"
#include "sched/scheduler_view.h"
#include "sched/step_planner.h"

namespace quire {

class Scheduler {
 public:
  Scheduler(const SchedulerConfig& config, const KvLayout& layout);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Whether the request can ever run (sched/request_check.h). Reads constants only: any thread.
  Status check(const Request& request) const { return check_request(request, state_.config, state_.kv); }
  // Queues a request. Fails if check() does. An accepted request always finishes: when blocks run out,
  // requests that are later in scheduling order are preempted. place: from reserve_place(), for a request
  // that arrived before it could be queued; nullopt = it arrives now.
  Status add_request(Request request, std::optional<int64_t> place = std::nullopt);
  // A place in the order of arrival, for one request.
  int64_t reserve_place() { return state_.requests.reserve_place(); }

  // Ends a request; no further output is reported. Unknown ids are ignored: the request may have ended.
  void abort_request(RequestId request);

  // Ends one sample because its text reached a stop string; no further output of it is reported. Ignored for
  // beam searches, which have no stop strings.
  void finish_sequence(RequestId request, int32_t index);

  // False if schedule() would return an empty plan.
  bool has_work() const;

  // Plans the next step. The plan is valid until the next call. A plan with scheduled sequences must be
  // committed before the next one (Error otherwise). `now` is in seconds on the clock of Request::arrival; an
  // earlier time than in the last call counts as that one. Without times the latency targets have no effect.
  const StepPlan& schedule(double now = 0.0);

  // Applies the executor's result of the last plan. Throws Error if the result belongs to another step. A
  // sequence for which the executor returned neither a token nor a failure ends with kError.
  const CommitResult& commit(const StepResult& result);

  // Applies the outcomes of disk reads and writes: part of commit(), and all of it for a plan with nothing
  // scheduled.
  void finish_disk_io(std::span<const DiskOutcome> outcomes);
  // True while cached blocks are still to be written to the disk.
  bool has_disk_writes() const { return state_.kv.has_disk_writes(); }
  // Slots of the disk cache that an earlier process has filled, least recently used first. Call before the
  // first request.
  void restore_disk(std::span<const StoredBlock> stored) { state_.kv.restore_disk(stored); }

  SchedulerStats stats() const;

  // Prompt tokens taken from the prefix cache at the first admission; 0 for an unknown request. A request
  // that ended in the commit that reported it in `started` is known until the next commit.
  int32_t num_cached_tokens(RequestId request) const;

  // For displays: see scheduler_view.h.
  SchedulerView view(const SchedulerViewLimits& limits) const { return make_scheduler_view(state_, limits); }
  // The request of a sequence that has block tables; -1 if the id is unknown.
  RequestId request_of(SeqId seq) const;
  // Replaces `requests` by the ids of all requests that were preempted and wait. O(requests).
  void preempted_requests(std::vector<RequestId>& requests) const;

  // Throws Error if the records are inconsistent. O(everything).
  void check_integrity() const;

  // Removes all cached prefixes. Returns false if blocks were in use; these are not cached either once they
  // are freed.
  bool reset_prefix_cache();

 private:
  void check_group(const SequenceGroup& group) const;
  void check_sequence(const Sequence& sequence) const;

  SchedulerState state_;
  StepState step_;
  StepPlanner planner_;
  Committer committer_;
};

}  // namespace quire
