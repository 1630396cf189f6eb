#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "support/switches.h"

namespace quire {
namespace {

TEST(ThreadPool, CoversEveryIndexExactlyOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    for (const int64_t n : {1, 2, 7, 64, 1000}) {
      for (const int64_t grain : {1, 3, 64, 5000}) {
        for (const Ranges ranges : {Ranges::kEven, Ranges::kLongFirst}) {
          std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
          const auto count = [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
          };
          pool.parallel_for(n, grain, count, ranges);
          for (const auto& h : hits)
            ASSERT_EQ(h.load(), 1) << threads << " threads, n " << n << ", grain " << grain;
        }
      }
    }
  }
}

// The ranges of a loop over [0, n) on three threads, in order.
std::vector<std::pair<int64_t, int64_t>> ranges_of(int64_t n, int64_t grain, Ranges ranges) {
  ThreadPool pool(3);
  std::mutex mutex;
  std::set<std::pair<int64_t, int64_t>> seen;
  const auto note = [&](int64_t begin, int64_t end, int thread) {
    EXPECT_GE(thread, 0);
    EXPECT_LT(thread, 3);
    const std::lock_guard lock(mutex);
    seen.emplace(begin, end);
  };
  pool.parallel_for(n, grain, note, ranges);
  return {seen.begin(), seen.end()};
}

TEST(ThreadPool, UsesRangesOfTheGrain) {
  int64_t at = 0;
  for (const auto& [begin, end] : ranges_of(100, 8, Ranges::kEven)) {
    EXPECT_EQ(begin, at);
    EXPECT_TRUE(end - begin == 8 || end == 100);
    at = end;
  }
  EXPECT_EQ(at, 100);
}

TEST(ThreadPool, StartsWithLongRangesThatShrinkToTheGrain) {
  const auto ranges = ranges_of(600, 8, Ranges::kLongFirst);
  ASSERT_FALSE(ranges.empty());
  EXPECT_EQ(ranges.front(), (std::pair<int64_t, int64_t>(0, 100)));  // half of a third
  int64_t at = 0;
  int64_t longest = 100;
  for (const auto& [begin, end] : ranges) {
    EXPECT_EQ(begin, at);
    EXPECT_LE(end - begin, longest);
    EXPECT_TRUE(end - begin >= 8 || end == 600);
    longest = end - begin;
    at = end;
  }
  EXPECT_EQ(at, 600);
  EXPECT_LE(longest, 8);
}

TEST(ThreadPool, CallsNothingForAnEmptyLoop) {
  ThreadPool pool(2);
  pool.parallel_for(0, 1, [](int64_t, int64_t, int) { FAIL(); });
}

TEST(ThreadPool, TakesTemporaryAndNamedBodies) {
  ThreadPool pool(2);
  std::atomic<int64_t> sum{0};
  auto named = [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) sum += i;
  };
  pool.parallel_for(10, 1, named);
  const auto constant = named;
  pool.parallel_for(10, 1, constant);
  EXPECT_EQ(sum.load(), 90);
}

TEST(ThreadPool, MakesWritesVisibleToTheNextLoop) {
  ThreadPool pool(4);
  std::vector<int64_t> values(64, 0);
  for (int round = 0; round < 5000; ++round) {
    pool.parallel_for(64, 1, [&](int64_t begin, int64_t end, int) {
      // Plain memory: each round reads what another thread may have written in the round before.
      for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] += 1;
    });
  }
  for (const int64_t v : values) EXPECT_EQ(v, 5000);
}

TEST(ThreadPool, NeverUsesAThreadIndexTwiceAtOnce) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> inside(4);
  for (int round = 0; round < 200; ++round) {
    pool.parallel_for(32, 1, [&](int64_t, int64_t, int thread) {
      EXPECT_EQ(inside[static_cast<size_t>(thread)].fetch_add(1), 0);
      inside[static_cast<size_t>(thread)].fetch_sub(1);
    });
  }
}

TEST(ThreadPool, WorksAfterItsThreadsHaveParked) {
  ThreadPool pool(3);
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> calls{0};
    pool.parallel_for(30, 1,
                      [&](int64_t begin, int64_t end, int) { calls += static_cast<int>(end - begin); });
    EXPECT_EQ(calls.load(), 30);
    ASSERT_TRUE(test::others_sleep(std::chrono::milliseconds(1)));
  }
}

TEST(ThreadPool, WakesAParkedThreadForALongLoop) {
  ThreadPool pool(2);
  ASSERT_TRUE(test::others_sleep(std::chrono::milliseconds(1)));
  // Each range waits for the other one, so the loop ends only when a second thread has joined it.
  std::atomic<int> entered{0};
  pool.parallel_for(2, 1, [&](int64_t, int64_t, int) {
    ++entered;
    while (entered.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(entered.load(), 2);
}

TEST(ThreadPool, SleepsWhileIdle) {
  ThreadPool pool(4);
  std::atomic<int> calls{0};
  pool.parallel_for(16, 1, [&](int64_t, int64_t, int) { ++calls; });
  EXPECT_TRUE(test::others_sleep(std::chrono::milliseconds(200)));
}

TEST(ThreadPool, RethrowsAnExceptionAfterEveryThreadHasLeft) {
  ThreadPool pool(4);
  for (int round = 0; round < 300; ++round) {
    std::atomic<int> inside{0};
    const auto body = [&](int64_t begin, int64_t end, int) {
      ++inside;
      if (begin <= round % 64 && round % 64 < end) {
        --inside;
        throw Error("range " + std::to_string(round));
      }
      volatile int spin = 0;
      while (spin < 2000) spin = spin + 1;
      --inside;
    };
    try {
      pool.parallel_for(64, 1, body, round % 2 == 0 ? Ranges::kEven : Ranges::kLongFirst);
      ADD_FAILURE() << "no exception in round " << round;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "range " + std::to_string(round));
      EXPECT_EQ(inside.load(), 0) << "a thread is still inside the body";
    }
  }
}

TEST(ThreadPool, WorksAfterAnException) {
  ThreadPool pool(3);
  for (int round = 0; round < 50; ++round) {
    EXPECT_THROW(pool.parallel_for(16, 1, [](int64_t, int64_t, int) { throw std::bad_alloc(); }),
                 std::bad_alloc);
    std::atomic<int> calls{0};
    pool.parallel_for(16, 1,
                      [&](int64_t begin, int64_t end, int) { calls += static_cast<int>(end - begin); });
    EXPECT_EQ(calls.load(), 16);
  }
}

TEST(ThreadPool, SkipsTheRemainingRangesAfterAnException) {
  ThreadPool pool(2);
  std::atomic<int64_t> calls{0};
  EXPECT_THROW(pool.parallel_for(1 << 20, 1,
                                 [&](int64_t, int64_t, int) {
                                   ++calls;
                                   throw Error("stop");
                                 }),
               Error);
  EXPECT_LE(calls.load(), 2);
}

TEST(ThreadPool, WorksWithPinnedThreads) {
  ThreadPool pool(2, true);
  std::atomic<int> calls{0};
  pool.parallel_for(16, 1, [&](int64_t, int64_t, int) { ++calls; });
  EXPECT_EQ(calls.load(), 16);
}

TEST(ThreadPool, RejectsInvalidSizes) {
  EXPECT_THROW(ThreadPool(0), Error);
  EXPECT_THROW(ThreadPool(-3), Error);
  EXPECT_THROW(ThreadPool(5000), Error);
}

TEST(AvailableCores, IsAtMostTheAffinityMask) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  EXPECT_GE(available_cores(), 1);
  EXPECT_LE(available_cores(), CPU_COUNT(&mask));
}

TEST(AvailableCores, FollowsTheAffinityMask) {
  int cores = 0;
  std::thread([&cores] {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof(mask), &mask), 0);
    cores = available_cores();
  }).join();
  EXPECT_EQ(cores, 1);
}

}  // namespace
}  // namespace quire
