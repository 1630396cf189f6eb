// How long steps of the engine take: what the simulator's cost model is fitted to.
#pragma once

#include <functional>
#include <vector>

#include "engine/engine.h"
#include "sim/cost_model.h"

namespace quire::cli {

struct StepGrid {
  int32_t num_rounds = 3;     // each kind of batch is run so often at the most
  double max_seconds = 60.0;  // about as long as all may take
  bool cpu_time =
      false;  // count the engine thread's CPU time, see BatchOptions; no requests at their own times
  int64_t max_tokens = 1 << 16;  // prompt tokens of a batch, at the most
};

// The steps of batches of several sizes and lengths, small ones first, and of requests of mixed lengths that
// come at once and one by one, merged where they are alike. `progress` gets the part that is done. Throws
// Error where a request is refused or fails.
std::vector<sim::MeasuredStep> measure_steps(Engine& engine, const StepGrid& grid, uint64_t seed,
                                             const std::function<void(double done)>& progress);

}  // namespace quire::cli
