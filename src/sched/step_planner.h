// Plans a step, in phases: preempt for requests of higher priority, choose the adapters of the step, schedule
// running sequences, admit waiting requests, build the plan. When blocks run out, the last request in
// scheduling order is preempted, whether its adapter is served or not.
//
// Owned by Scheduler; engine thread only.
#pragma once

#include <cstdint>

#include "sched/admission.h"
#include "sched/preemption.h"
#include "sched/scheduler_state.h"

namespace quire {

class StepPlanner {
 public:
  explicit StepPlanner(SchedulerState& state)
      : state_(state), preemption_(state), admission_(state, preemption_) {}

  // Fills `step` with the next plan. `now`: seconds; an earlier time than in the last call counts as that.
  void plan(StepState& step, double now);

 private:
  void begin(StepState& step, double now);
  void measure_last_step(StepState& step, double now);
  void count_running(StepState& step) const;
  void limit_budget(StepState& step) const;
  void schedule_running(StepState& step);
  void schedule_served(StepState& step);
  void admit_waiting(StepState& step);
  bool schedule_group(StepState& step, size_t begin);
  void share_budget(const StepState& step, size_t begin, size_t end) const;
  void share_budget_of_beams(const StepState& step, size_t begin, size_t end) const;
  int32_t chunk_of(const StepState& step, const Sequence& sequence, int32_t budget) const;
  int32_t chunk_for_ttft(const StepState& step, const Sequence& sequence, int32_t max_chunk) const;
  bool allocate_slots(StepState& step, Sequence& sequence);
  void put_in_flight(StepState& step, Sequence& sequence);
  bool is_partial_prefill(const Sequence& sequence) const;
  bool prompt_fits(const StepState& step, const SequenceGroup& group) const;
  void finish(StepState& step);

  SchedulerState& state_;
  Preemption preemption_;
  Admission admission_;
  double step_begin_ = 0.0;  // when the last plan was made
  bool measures_ = false;    // the last plan is being computed since step_begin_
};

}  // namespace quire
