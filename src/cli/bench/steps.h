// How long steps of the engine take: what the simulator's cost model is fitted to.
#pragma once

#include <functional>
#include <vector>

#include "engine/engine.h"
#include "sim/cost_model.h"

namespace quire::cli {

struct StepGrid {
  int32_t num_rounds = 3;        // each point is measured so often; the median counts
  double max_seconds = 60.0;     // then no more is measured
  bool cpu_time = false;         // see BatchOptions
  int64_t max_tokens = 1 << 16;  // prompt tokens of a point, at the most
};

// Steps of decoding batches (several sizes and lengths) and of prompts beside one sequence that decodes, each
// with the time between two steps as the engine's outputs show it. Small ones first. `progress` gets the part
// that is done. Throws Error where not enough could be measured for a fit.
std::vector<sim::MeasuredStep> measure_steps(Engine& engine, const StepGrid& grid, uint64_t seed,
                                             const std::function<void(double done)>& progress);

}  // namespace quire::cli
