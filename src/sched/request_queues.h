// The lists that a request is in: waiting, waiting for the disk, running; and the scheduling policy, which
// gives each request its rank in them. This is the only place where policies differ:
//
//             level          order in the level   preempts higher levels
//   fcfs      0              arrival              no
//   priority  the priority   arrival              yes
//   mlfq      -1 .. 7        entry to the level   yes
//   fair      0              first admission      no; the next request to admit: sched/clients.h
//
// Owned by Scheduler; engine thread only. Lists hold pointers to the records of RequestTable.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "contract/engine_config.h"
#include "sched/clients.h"
#include "sched/feedback_levels.h"
#include "sched/request.h"
#include "sched/waiting_queue.h"

namespace quire {

class RequestQueues {
 public:
  // guard_delay: kMlfq, see SchedulerConfig.
  RequestQueues(SchedulingPolicy policy, int64_t guard_delay);
  RequestQueues(const RequestQueues&) = delete;
  RequestQueues& operator=(const RequestQueues&) = delete;

  // Whether a waiting request may preempt running ones of higher levels.
  bool preempts() const;

  // `step` below: the number of steps so far.
  //
  // Gives a new request its rank; ends the policy's record of a request.
  void enter(SequenceGroup& group, int64_t step);
  void leave(SequenceGroup& group);
  // The request is admitted for the first time, with num_tokens prompt tokens to compute.
  void note_first_admission(SequenceGroup& group, int32_t num_tokens);
  // Charges work to the request (kMlfq) or its client (kFair). The first may change ranks: call
  // sort_running() afterwards.
  void charge_computed(Sequence& sequence, int32_t num_computed_before, int64_t step);
  void charge_generated(const SequenceGroup& group, int64_t num_tokens);
  // kMlfq: moves requests that starve to the top; waiting ones, or running ones from `begin` on.
  void promote_starving_waiting(int64_t step);
  void promote_starving_running(size_t begin, int64_t step);

  // Waiting requests.
  SequenceGroup* next_waiting() { return waiting_.front(); }  // null if none waits
  void push_waiting(SequenceGroup& group);
  void remove_waiting(SequenceGroup& group);

  // Requests that wait for blocks from the disk; a waiting request moves there and back.
  std::span<SequenceGroup* const> loading() const { return loading_; }
  void begin_loading(SequenceGroup& group);
  void end_loading(SequenceGroup& group);  // removes it without queuing it
  template <typename Ready>
  void requeue_loaded(Ready ready) {
    std::erase_if(loading_, [&](SequenceGroup* group) {
      if (!ready(*group)) return false;
      group->loading = false;
      push_waiting(*group);
      return true;
    });
  }

  // Running samples in scheduling order; those of one request are adjacent.
  const std::vector<Sequence*>& running() const { return running_; }
  void insert_running(Sequence& sequence);
  void pop_running() { running_.pop_back(); }
  void erase_running(const Sequence& sequence) { std::erase(running_, &sequence); }
  void erase_running(SequenceState state) {
    std::erase_if(running_, [state](const Sequence* sequence) { return sequence->state == state; });
  }
  // Restores the order of the running list after changes of rank. O(running).
  void sort_running();
  size_t index_in_running(const SequenceGroup& group) const;
  // True if no other request runs.
  bool runs_alone(const SequenceGroup& group) const;

  bool empty() const { return running_.empty() && waiting_.empty() && loading_.empty(); }
  // Throws Error if a list is inconsistent.
  void check_integrity() const;

 private:
  template <class Change>
  void change_rank(SequenceGroup& group, Change change);
  void promote(SequenceGroup& group);

  SchedulingPolicy policy_;
  ClientTable clients_;    // kFair
  FeedbackLevels levels_;  // kMlfq
  WaitingQueue waiting_;
  std::vector<SequenceGroup*> loading_;
  std::vector<Sequence*> running_;
  int64_t next_admission_ = 0;  // kFair
  bool any_rank_changed_ = false;
  std::vector<Sequence*> moved_;    // scratch of sort_running()
  std::vector<Sequence*> unmoved_;  // scratch of sort_running()
};

}  // namespace quire
