// Predicts the duration of a step from the steps before: seconds = base + slope * tokens, fitted with
// exponentially decaying weights. Owned by Scheduler; engine thread only. Deterministic given the times.
#pragma once

#include <cstdint>

namespace quire {

class StepClock {
 public:
  // Adds a measurement. Outliers (the machine was busy with something else) are limited to a multiple of the
  // expected time.
  void observe(int64_t num_tokens, double seconds);

  bool ready() const { return weight_ > 0.0; }
  double seconds_for(int64_t num_tokens) const { return base_ + slope_ * static_cast<double>(num_tokens); }
  double seconds_per_token() const { return slope_; }
  // The largest step, in tokens, that takes at most `seconds`; 0 or more. Unlimited before the first
  // measurement.
  int64_t tokens_within(double seconds) const;

 private:
  // Decayed sums over the measured steps; x: tokens, y: seconds.
  double weight_ = 0.0;
  double sum_x_ = 0.0;
  double sum_y_ = 0.0;
  double sum_xx_ = 0.0;
  double sum_xy_ = 0.0;
  double base_ = 0.0;   // seconds
  double slope_ = 0.0;  // seconds per token
};

}  // namespace quire
