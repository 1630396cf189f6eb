// Waiting for something that another thread does. No test asserts how long something takes: machines are
// shared and slow down without warning. This is the only file of the unit tests that reads a clock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "support/sanitizers.h"

namespace quire::test {

// Far above what anything takes on a busy machine, so that only a hang exceeds it.
inline constexpr std::chrono::seconds kHang{kSanitizer ? 600 : 120};

// Waits until `condition` holds. Returns false if it does not hold after kHang.
[[nodiscard]] inline bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kHang;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Runs work that hangs, or takes hours, if something is wrong. A thread cannot be stopped, so a hang ends the
// process.
inline void expect_end(const std::string& what, const std::function<void()>& work) {
  std::atomic<bool> done{false};
  std::thread thread([&] {
    work();
    done = true;
  });
  if (!eventually([&] { return done.load(); })) {
    std::fprintf(stderr, "%s does not end\n", what.c_str());
    std::abort();
  }
  thread.join();
}

}  // namespace quire::test
