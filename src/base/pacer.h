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
  // `busy`: whether the operation should be slow. Called at most once per kSlice.
  explicit Pacer(std::function<bool()> busy) : busy_(std::move(busy)) {}

  // Call it at least every millisecond. While `busy`, it sleeps so that the thread alternates between working
  // for kSlice and sleeping for kPause.
  void pace();

  static constexpr std::chrono::microseconds kSlice{1000};
  static constexpr std::chrono::microseconds kPause{9000};

 private:
  std::function<bool()> busy_;
  std::chrono::steady_clock::time_point slice_end_{};
};

}  // namespace quire
