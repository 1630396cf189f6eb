#include "base/yield_point.h"

#include <gtest/gtest.h>

#include <chrono>

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

TEST(YieldPoint, ThrowsIfItIsCancelled) {
  std::stop_source stop;
  const YieldPoint yield_point(stop.get_token());
  yield_point.check();
  EXPECT_FALSE(yield_point.cancelled());
  stop.request_stop();
  EXPECT_TRUE(yield_point.cancelled());
  EXPECT_THROW(yield_point.check(), Cancelled);
  YieldPoint().check();
}

TEST(Pacer, SleepsBetweenSlicesOfWorkWhileOthersAreBusy) {
  int num_slices = 0;
  Pacer pacer([&] {
    ++num_slices;
    return true;
  });
  const YieldPoint yield_point({}, &pacer);
  const auto begin = Clock::now();
  while (num_slices < 10) yield_point.check();
  EXPECT_GE(Clock::now() - begin, 10 * Pacer::kPause + 9 * Pacer::kSlice);
}

TEST(Pacer, DoesNotSleepWhileOthersAreIdle) {
  int num_slices = 0;
  Pacer pacer([&] {
    ++num_slices;
    return false;
  });
  // The fastest of many slices: a busy machine makes some of them longer.
  auto fastest = Clock::duration::max();
  for (int i = 0; i < 100; ++i) {
    const auto begin = Clock::now();
    const int target = num_slices + 1;
    while (num_slices < target) pacer.pace();
    fastest = std::min(fastest, Clock::now() - begin);
  }
  EXPECT_LT(fastest, Pacer::kPause);
}

}  // namespace
}  // namespace quire
