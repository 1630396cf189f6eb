#include "sched/step_clock.h"

#include <algorithm>

namespace quire {

namespace {

constexpr double kDecay = 0.97;        // weight of a step relative to the next one
constexpr double kOutlier = 4.0;       // measurements are limited to this multiple of the expected time
constexpr double kKnownWeight = 10.0;  // weight of all measurements from which on outliers are limited
constexpr int64_t kUnbounded = int64_t{1} << 40;

}  // namespace

void StepClock::observe(int64_t num_tokens, double seconds) {
  if (num_tokens <= 0 || !(seconds > 0.0)) return;
  const double x = static_cast<double>(num_tokens);
  const bool knows = weight_ > kKnownWeight;
  const double y = knows ? std::min(seconds, kOutlier * seconds_for(num_tokens)) : seconds;
  weight_ = kDecay * weight_ + 1.0;
  sum_x_ = kDecay * sum_x_ + x;
  sum_y_ = kDecay * sum_y_ + y;
  sum_xx_ = kDecay * sum_xx_ + x * x;
  sum_xy_ = kDecay * sum_xy_ + x * y;
  const double mean_x = sum_x_ / weight_;
  const double mean_y = sum_y_ / weight_;
  // Steps of about the same size do not determine the slope. The last slope is part of the fit with the
  // weight of a small spread, so it stays in this case.
  const double known_slope = slope_ > 0.0 ? slope_ : mean_y / mean_x;
  const double spread = sum_xx_ - sum_x_ * mean_x + 0.01 * mean_x * mean_x;
  const double covariance = sum_xy_ - sum_x_ * mean_y + 0.01 * mean_x * mean_x * known_slope;
  // Neither the base nor the slope is negative.
  slope_ = std::clamp(covariance / spread, 1e-3 * mean_y / mean_x, mean_y / mean_x);
  base_ = std::max(0.0, mean_y - slope_ * mean_x);
}

int64_t StepClock::tokens_within(double seconds) const {
  if (!ready() || slope_ <= 0.0) return kUnbounded;
  const double tokens = (seconds - base_) / slope_;
  return static_cast<int64_t>(std::clamp(tokens, 0.0, static_cast<double>(kUnbounded)));
}

}  // namespace quire
