#include "server/http/work_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <limits>

namespace quire {
namespace {

using namespace std::chrono_literals;

constexpr std::array<WorkPool::LaneOptions, 2> kLanes = {{
    {100, 1, 0},
    {std::numeric_limits<size_t>::max(), 1, 0},
}};

void wait_for(const YieldPoint& yield_point) {
  while (!yield_point.cancelled()) std::this_thread::sleep_for(1ms);
}

TEST(WorkPool, RunsSmallTasksWhileLargeOnesRun) {
  const std::stop_source stop;
  std::atomic<bool> large_done{false};
  std::latch small_done(1);
  WorkPool pool(kLanes, [] { return false; });
  pool.submit(1000, stop, [&](const YieldPoint& yield_point) {
    wait_for(yield_point);
    large_done = true;
  });
  pool.submit(10, std::stop_source(), [&](const YieldPoint&) { small_done.count_down(); });
  small_done.wait();
  EXPECT_FALSE(large_done.load());
  std::stop_source(stop).request_stop();
}

TEST(WorkPool, HasLanesForCompiling) {
  using Special = WorkPool::Special;
  std::atomic<int> num_held{0};
  std::latch others_done(4);
  WorkPool pool(kLanes, [] { return false; });
  const auto hold = [&](const YieldPoint& yield_point) {
    ++num_held;
    wait_for(yield_point);
    --num_held;
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pool.submit(Special::kLongCompiling, std::stop_source(), hold));
  const auto count = [&](const YieldPoint&) { others_done.count_down(); };
  pool.submit(Special::kCompiling, std::stop_source(), count);
  pool.submit(Special::kWaiting, std::stop_source(), count);
  pool.submit(10, std::stop_source(), count);
  pool.submit(1000, std::stop_source(), count);
  others_done.wait();
  pool.close();
  EXPECT_EQ(num_held.load(), 0);
}

TEST(WorkPool, CancelsRunningAndWaitingTasks) {
  std::atomic<int> num_cancelled{0};
  {
    WorkPool pool(kLanes, [] { return false; });
    const auto task = [&](const YieldPoint& yield_point) {
      wait_for(yield_point);
      ++num_cancelled;
    };
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(pool.submit(10, std::stop_source(), task));
    pool.cancel_all();
  }
  EXPECT_EQ(num_cancelled.load(), 5);
}

TEST(WorkPool, RunsEveryTaskBeforeItIsDestroyed) {
  std::atomic<int> num_run{0};
  {
    WorkPool pool(kLanes, [] { return false; });
    for (int i = 0; i < 100; ++i) pool.submit(10, std::stop_source(), [&](const YieldPoint&) { ++num_run; });
  }
  EXPECT_EQ(num_run.load(), 100);
}

TEST(WorkPool, SlowsLargeTasksWhileTheEngineIsBusy) {
  constexpr std::array<WorkPool::LaneOptions, 2> lanes = {{{100, 1, 0}, {1000, 1, 1}}};
  std::atomic<int> num_questions{0};
  WorkPool pool(lanes, [&] {
    ++num_questions;
    return true;
  });
  std::latch done(1);
  pool.submit(10, std::stop_source(), [](const YieldPoint& yield_point) { yield_point.check(); });
  pool.submit(1000, std::stop_source(), [&](const YieldPoint& yield_point) {
    while (num_questions < 5) yield_point.check();
    done.count_down();
  });
  done.wait();
  pool.close();
  EXPECT_EQ(num_questions, 5);  // none for the small task; the pacer, which asks, sleeps after each
}

// A task may own a reference to the pool, which must not be the last one: a thread cannot join itself.
TEST(WorkPool, CloseWaitsForTasksAndRejectsFurtherOnes) {
  auto pool = std::make_shared<WorkPool>(kLanes, [] { return false; });
  std::atomic<bool> done{false};
  pool->submit(10, std::stop_source(), [pool, &done](const YieldPoint& yield_point) {
    wait_for(yield_point);
    done = true;
  });
  pool->close();
  EXPECT_TRUE(done.load());
  EXPECT_EQ(pool.use_count(), 1);
  EXPECT_FALSE(pool->submit(10, std::stop_source(), [](const YieldPoint&) {}));
}

TEST(WorkPool, RejectsTasksIfItsQueueIsFull) {
  WorkPool pool(kLanes, [] { return false; });
  const auto task = [](const YieldPoint& yield_point) { wait_for(yield_point); };
  bool refused = false;
  for (int i = 0; i < 10000 && !refused; ++i) refused = !pool.submit(10, std::stop_source(), task);
  EXPECT_TRUE(refused);
  EXPECT_TRUE(pool.submit(1000, std::stop_source(), task));
  EXPECT_TRUE(pool.submit(WorkPool::Special::kWaiting, std::stop_source(), task));
}

}  // namespace
}  // namespace quire
