// Calls a function now and then while a constraint is compiled, so that its caller can stop or slow it down.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

namespace quire::grammar {

// May throw; what was being compiled is then lost.
using ProgressCallback = std::function<void()>;

// Used by one thread.
class Progress {
 public:
  explicit Progress(ProgressCallback callback) : callback_(std::move(callback)) {}

  // steps: as those of Limits. Calls the function several times per millisecond.
  void add(size_t steps) {
    if (!callback_) return;
    steps_ += steps;
    if (steps_ < kStepsOfCall) return;
    steps_ = 0;
    callback_();
  }

 private:
  static constexpr size_t kStepsOfCall = 10'000;

  ProgressCallback callback_;
  size_t steps_ = 0;
};

}  // namespace quire::grammar
