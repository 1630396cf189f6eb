// Turns plans into tokens. An executor owns the device's state: weights, the KV pool, each sequence's tokens
// and sampling state. The engine thread alone calls it. It knows no queue and no request: only sequences.
#pragma once

#include "contract/step_plan.h"
#include "contract/step_result.h"

namespace quire {

class Executor {
 public:
  virtual ~Executor() = default;

  // Starts a step. The plan must live until finish() returns.
  virtual void begin(const StepPlan& plan) = 0;
  // Completes the step that begin() started. With nothing scheduled and something under way to or from the
  // disk, waits until some of it has ended. The result lives until the next begin().
  virtual const StepResult& finish() = 0;

  // Empties the disk's slots, those that are being written included. The bookkeeping has forgotten them.
  virtual void clear_disk_cache() {}
};

}  // namespace quire
