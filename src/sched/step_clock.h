// What a step costs in seconds, learned from the steps before: seconds = base + slope * tokens, fitted with
// exponentially fading weights. Owned by Scheduler; engine thread only. Deterministic given the times.
#pragma once

#include <cstdint>

namespace quire {

class StepClock {
 public:
  // A step of so many tokens took so long. A time far above what was expected (the machine did something
  // else) counts as if it were only somewhat above.
  void observe(int64_t num_tokens, double seconds);

  bool ready() const { return weight_ > 0.0; }
  double seconds_for(int64_t num_tokens) const { return base_ + slope_ * static_cast<double>(num_tokens); }
  double seconds_per_token() const { return slope_; }
  // The most tokens a step may have to end within `seconds`; at least 0. Huge while nothing was observed.
  int64_t tokens_within(double seconds) const;

 private:
  // Faded sums over the observed steps; x tokens, y seconds.
  double weight_ = 0.0;
  double sum_x_ = 0.0;
  double sum_y_ = 0.0;
  double sum_xx_ = 0.0;
  double sum_xy_ = 0.0;
  double base_ = 0.0;   // seconds
  double slope_ = 0.0;  // seconds a token
};

}  // namespace quire
