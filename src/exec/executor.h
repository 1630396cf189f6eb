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
  // Completes the step that begin() started. The result lives until the next begin().
  virtual const StepResult& finish() = 0;
};

}  // namespace quire
