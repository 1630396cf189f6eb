#include "sim/capacity.h"

#include <algorithm>

namespace quire::sim {

CapacityPlan find_replicas(double target, int32_t max_replicas,
                           const std::function<double(int32_t)>& good_fraction) {
  CapacityPlan plan;
  const auto reaches = [&](int32_t replicas) {
    plan.trials.push_back({replicas, good_fraction(replicas)});
    return plan.trials.back().good_fraction >= target;
  };
  int32_t too_few = 0;
  int32_t enough = 1;
  while (!reaches(enough)) {
    too_few = enough;
    if (enough >= max_replicas) break;
    enough = std::min(2 * enough, max_replicas);
  }
  if (too_few < enough) {
    plan.replicas = enough;
    while (plan.replicas - too_few > 1) {
      const int32_t middle = too_few + (plan.replicas - too_few) / 2;
      (reaches(middle) ? plan.replicas : too_few) = middle;
    }
  }
  std::sort(plan.trials.begin(), plan.trials.end(),
            [](const CapacityTrial& a, const CapacityTrial& b) { return a.replicas < b.replicas; });
  return plan;
}

}  // namespace quire::sim
