// The data that the parts of the scheduler share. SchedulerState lives as long as the scheduler; StepState
// describes the step that is being planned, computed or committed and is passed from part to part. Owned by
// Scheduler; engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "contract/kv_layout.h"
#include "contract/step_plan.h"
#include "kv/kv_manager.h"
#include "sched/adapter_turns.h"
#include "sched/request_queues.h"
#include "sched/request_table.h"
#include "sched/scheduler_types.h"
#include "sched/step_clock.h"

namespace quire {

struct SchedulerState {
  SchedulerState(const SchedulerConfig& scheduler_config, const KvLayout& layout)
      : config(scheduler_config),
        kv(layout, {.enable_prefix_caching = config.enable_prefix_caching,
                    .hash_seed = config.hash_seed,
                    .hash_bits = config.hash_bits,
                    .checkpoint_blocks = layout.checkpoint_blocks}),
        kv_groups(layout.groups),
        bytes_per_block(layout.bytes_per_block),
        queues(config.policy, config.guard_delay),
        adapters(config.max_loras) {}

  SchedulerConfig config;
  KvManager kv;
  std::vector<KvGroupSpec> kv_groups;  // KvLayout::groups
  int64_t bytes_per_block;
  RequestTable requests;
  RequestQueues queues;
  AdapterTurns adapters;
  StepClock step_clock;
  SchedulerStats totals;             // counters only
  std::vector<SeqId> finished_seqs;  // for StepPlan::finished of the next plan
  std::vector<RequestId> started;    // for CommitResult::started of the next commit
  std::vector<Sequence*> releasing;  // samples that are released at the end of the next commit
};

struct StepState {
  StepPlan plan;
  std::vector<Sequence*> in_flight;  // parallel to plan.scheduled
  double now = 0.0;                  // seconds
  int32_t budget = 0;                // tokens left to schedule
  int32_t decodes_left = 0;          // with tpot_slo: decoding sequences that are not scheduled yet
  int32_t num_partial_prefills = 0;  // prompts computed in chunks
  int64_t num_promised_blocks = 0;   // sum over requests that were admitted early and are not planned yet
  bool preempted = false;            // some request was preempted in this step
  bool uncommitted = false;          // the plan has scheduled tokens and is not committed yet
};

// The request is planned, or preempted.
inline void end_early_admission(SequenceGroup& group, StepState& step) {
  if (!group.admitted_early) return;
  group.admitted_early = false;
  step.num_promised_blocks -= group.num_promised_blocks;
}

}  // namespace quire
