// Finds the number of replicas that a trace needs. Pure functions.
#pragma once

#include <functional>
#include <vector>

#include "sim/simulator.h"

namespace quire::sim {

// The result for one number of replicas.
struct CapacityTrial {
  int32_t replicas = 0;
  double good_fraction = 0.0;  // fraction of all requests that met the SLOs
};

struct CapacityPlan {
  int32_t replicas = 0;               // smallest number that reaches the target; 0 = none up to the limit
  std::vector<CapacityTrial> trials;  // ascending by replicas
};

// Doubles the number of replicas until the target is reached, then bisects; assumes that more replicas are
// not worse. `good_fraction` simulates the given number of replicas; its exceptions pass through.
CapacityPlan find_replicas(double target, int32_t max_replicas,
                           const std::function<double(int32_t)>& good_fraction);

}  // namespace quire::sim
