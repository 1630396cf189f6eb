// How many replicas a trace needs. Pure functions; any thread.
#pragma once

#include <functional>
#include <vector>

#include "sim/simulator.h"

namespace quire::sim {

// One number of replicas that was tried.
struct CapacityTrial {
  int32_t replicas = 0;
  double good_part = 0.0;  // of all requests: those that met the objectives
};

struct CapacityPlan {
  int32_t replicas = 0;               // the fewest found that reach the target; 0: none up to the limit
  std::vector<CapacityTrial> trials;  // by replicas
};

// Doubles the number until the target is reached, then halves the gap: more replicas are taken to be no
// worse. good_part: simulates so many replicas. Throws what it throws.
CapacityPlan find_replicas(double target, int32_t max_replicas,
                           const std::function<double(int32_t)>& good_part);

}  // namespace quire::sim
