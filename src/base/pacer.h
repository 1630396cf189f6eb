// Slows a long operation down while more important threads need the processor. A high niceness does not
// suffice: while such a thread runs on one core, a parallel computation on all cores waits for its share of
// that core.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

namespace quire {

// Used by one thread.
class Pacer {
 public:
  using Clock = std::chrono::steady_clock;
  // Where the time comes from and how it passes.
  struct Time {
    Clock::time_point (*now)();
    void (*sleep)(Clock::duration);
  };

  // `busy`: whether the operation should be slow. Called at most once per kSlice.
  explicit Pacer(std::function<bool()> busy) : Pacer(std::move(busy), kSystemTime) {}
  Pacer(std::function<bool()> busy, const Time& time) : busy_(std::move(busy)), time_(time) {}

  // Call it at least every millisecond. While `busy`, it sleeps so that the thread alternates between working
  // for kSlice and sleeping for kPause.
  void pace();

  static constexpr std::chrono::microseconds kSlice{1000};
  static constexpr std::chrono::microseconds kPause{9000};

 private:
  static const Time kSystemTime;

  std::function<bool()> busy_;
  Time time_;
  Clock::time_point slice_end_{};
};

}  // namespace quire
