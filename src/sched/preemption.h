// Preempts running requests. A preempted request's blocks move to the host pool, or they are freed and
// recomputed. Samples that are recomputed share their prompt again: one of them computes it, and the others,
// with empty tables, wait to be forked from it. A sample whose prompt is still cached starts on its own.
//
// Owned by Scheduler; engine thread only.
#pragma once

#include <vector>

#include "sched/scheduler_state.h"

namespace quire {

class Preemption {
 public:
  explicit Preemption(SchedulerState& state) : state_(state) {}

  // Preempts the last request in scheduling order, with all its samples.
  void preempt_last_request(StepState& step);
  // Preempts one sample: the last in scheduling order. swapped: its blocks are in the host pool already.
  void preempt_last_sample(StepState& step, bool swapped);

 private:
  bool prefers_swap(const SequenceGroup& group) const;

  SchedulerState& state_;
  std::vector<TableId> tables_;  // scratch
};

}  // namespace quire
