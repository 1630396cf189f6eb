#include "sim/capacity.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire::sim {
namespace {

TEST(Capacity, FindsTheFewestReplicasWithFewTrials) {
  for (int32_t needed = 1; needed <= 40; ++needed) {
    const CapacityPlan plan =
        find_replicas(0.9, 64, [&](int32_t replicas) { return replicas >= needed ? 0.9 : 0.5; });
    EXPECT_EQ(plan.replicas, needed);
    EXPECT_LE(plan.trials.size(), 13U);
    for (size_t i = 1; i < plan.trials.size(); ++i)
      EXPECT_LT(plan.trials[i - 1].replicas, plan.trials[i].replicas);
  }
}

TEST(Capacity, ReportsIfTheMaximumIsNotEnough) {
  std::vector<int32_t> tried;
  const CapacityPlan plan = find_replicas(0.9, 12, [&](int32_t replicas) {
    tried.push_back(replicas);
    return 0.5;
  });
  EXPECT_EQ(plan.replicas, 0);
  EXPECT_EQ(tried, (std::vector<int32_t>{1, 2, 4, 8, 12}));
}

}  // namespace
}  // namespace quire::sim
