// Executes plans. An executor owns the device's state: weights, the KV pool, each sequence's tokens and
// sampling state. Only the engine thread calls it. It handles sequences only; queues and requests belong to
// the scheduler.
#pragma once

#include <functional>

#include "contract/step_plan.h"
#include "contract/step_result.h"

namespace quire {

class Executor {
 public:
  virtual ~Executor() = default;

  // Starts a step. The plan must live until finish() returns.
  virtual void begin(const StepPlan& plan) = 0;
  // Completes the step that begin() started. Does not wait for the disk: the outcomes of its operations are
  // in the result of the step after their end. The result lives until the next begin().
  virtual const StepResult& finish() = 0;

  // Whether disk operations are in flight.
  virtual bool disk_busy() const { return false; }
  // Waits until an outcome can be taken or nothing is in flight.
  virtual void wait_for_disk() {}
  // Called on another thread after each outcome, with a lock that disk_busy() and begin() take. An empty
  // callback removes the previous one, which is not running after that.
  virtual void on_disk_outcome(const std::function<void()>& /*callback*/) {}

  // Empties the disk's slots, including those that are being written. The bookkeeping has removed them
  // already.
  virtual void clear_disk_cache() {}
};

}  // namespace quire
