#include "base/yield_point.h"

#include <gtest/gtest.h>

#include <chrono>

#include "support/switches.h"

namespace quire {
namespace {

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

// A time that passes only when the pacer looks at it or sleeps.
struct SimulatedTime {
  static inline Pacer::Clock::time_point now;
  static inline Pacer::Clock::duration slept;

  SimulatedTime() {
    now = Pacer::Clock::time_point(std::chrono::hours(1));
    slept = {};
  }
  static constexpr Pacer::Time kTime = {
      [] { return now += std::chrono::microseconds(100); },
      [](Pacer::Clock::duration duration) {
        slept += duration;
        now += duration;
      },
  };
};

TEST(Pacer, SleepsBetweenSlicesOfWorkWhileOthersAreBusy) {
  const SimulatedTime time;
  int num_slices = 0;
  Pacer pacer(
      [&] {
        ++num_slices;
        return true;
      },
      SimulatedTime::kTime);
  const YieldPoint yield_point({}, &pacer);
  int num_checks = 0;
  for (; num_slices < 10; ++num_checks) yield_point.check();
  EXPECT_EQ(SimulatedTime::slept, 10 * Pacer::kPause);
  EXPECT_EQ(num_checks, 1 + 9 * 10) << "a slice has ten looks at the time";
}

TEST(Pacer, DoesNotSleepWhileOthersAreIdle) {
  const SimulatedTime time;
  int num_slices = 0;
  Pacer pacer(
      [&] {
        ++num_slices;
        return false;
      },
      SimulatedTime::kTime);
  while (num_slices < 10) pacer.pace();
  EXPECT_EQ(SimulatedTime::slept, Pacer::Clock::duration::zero());
}

TEST(Pacer, ReadsTheClockAndSleepsUnlessItIsToldOtherwise) {
  int num_slices = 0;
  Pacer pacer([&] {
    ++num_slices;
    return true;
  });
  const int64_t waits = test::num_waits();
  while (num_slices < 3) pacer.pace();
  EXPECT_GE(test::num_waits() - waits, 3);
}

}  // namespace
}  // namespace quire
