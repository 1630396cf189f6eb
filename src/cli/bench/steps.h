// Measures the duration of engine steps, to which the simulator's cost model is fitted.
#pragma once

#include <functional>
#include <vector>

#include "engine/engine.h"
#include "sim/cost_model.h"

namespace quire::cli {

struct StepGrid {
  int32_t num_rounds = 3;     // maximum runs per kind of batch
  double max_seconds = 60.0;  // approximate duration of the measurement
  bool cpu_time = false;      // use the engine thread's CPU clock (BatchOptions); submit all requests at once
  int64_t max_tokens = 1 << 16;  // maximum prompt tokens per batch
};

// Measures the steps of batches of several sizes and lengths, small ones first, and of mixed requests that
// arrive at once and one by one. Similar steps are merged. `progress` receives the fraction done. Throws
// Error if a request is rejected or fails.
std::vector<sim::MeasuredStep> measure_steps(Engine& engine, const StepGrid& grid, uint64_t seed,
                                             const std::function<void(double done)>& progress);

}  // namespace quire::cli
