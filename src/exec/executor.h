// Executes plans. An executor owns the device's state: weights, the KV pool, each sequence's tokens and
// sampling state. Only the engine thread calls it. It handles sequences only; queues and requests belong to
// the scheduler.
#pragma once

#include "contract/step_plan.h"
#include "contract/step_result.h"

namespace quire {

class Executor {
 public:
  virtual ~Executor() = default;

  // Starts a step. The plan must live until finish() returns.
  virtual void begin(const StepPlan& plan) = 0;
  // Completes the step that begin() started. If nothing is scheduled and disk operations are in flight, waits
  // for one of them to end. The result lives until the next begin().
  virtual const StepResult& finish() = 0;

  // Empties the disk's slots, including those that are being written. The bookkeeping has removed them
  // already.
  virtual void clear_disk_cache() {}
};

}  // namespace quire
