#include "sim/recorder.h"

#include <algorithm>
#include <cmath>

namespace quire::sim {

namespace {

constexpr double kShortest = 1e-7;  // seconds; lower limit of the first bucket
constexpr double kLongest = 1e7;
constexpr double kGrowth = 1.002;

}  // namespace

LogHistogram::LogHistogram()
    : buckets_(static_cast<size_t>(std::log(kLongest / kShortest) / std::log(kGrowth)) + 2, 0) {}

void LogHistogram::add(double seconds) {
  if (seconds != last_) {
    last_ = seconds;
    const double place = std::log(std::clamp(seconds, kShortest, kLongest) / kShortest) / std::log(kGrowth);
    last_bucket_ = static_cast<size_t>(place);
  }
  ++buckets_[last_bucket_];
  ++count_;
  sum_ += seconds;
}

double LogHistogram::percentile(double q) const {
  if (count_ == 0) return 0.0;
  const double rank = std::clamp(q, 0.0, 100.0) / 100.0 * static_cast<double>(count_ - 1);
  int64_t below = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    below += buckets_[i];
    // The center of the bucket.
    if (static_cast<double>(below) > rank) return kShortest * std::pow(kGrowth, static_cast<double>(i) + 0.5);
  }
  return kLongest;
}

void SeriesPoint::add(const KvUse& kv, double seconds) {
  busy += seconds;
  held += seconds * static_cast<double>(kv.held);
  filled += seconds * static_cast<double>(kv.filled);
  reserved += seconds * static_cast<double>(kv.reserved);
  unused += seconds * static_cast<double>(kv.unused);
  rounding += seconds * static_cast<double>(kv.rounding);
  running += seconds * kv.num_running;
  waiting += seconds * kv.num_waiting;
}

SeriesPoint& SeriesPoint::operator+=(const SeriesPoint& other) {
  busy += other.busy;
  held += other.held;
  filled += other.filled;
  reserved += other.reserved;
  unused += other.unused;
  rounding += other.rounding;
  running += other.running;
  waiting += other.waiting;
  return *this;
}

void TimeSeries::add(const KvUse& kv, double begin, double end) {
  while (end >= width_ * static_cast<double>(kNumPoints)) {
    for (size_t i = 0; i < kNumPoints / 2; ++i) {
      points_[i] = points_[2 * i];
      points_[i] += points_[2 * i + 1];
    }
    std::fill(points_.begin() + kNumPoints / 2, points_.end(), SeriesPoint{});
    width_ *= 2.0;
  }
  size_t i = static_cast<size_t>(begin / width_);
  for (double from = begin; from < end && i < kNumPoints; ++i) {
    const double to = std::min(end, static_cast<double>(i + 1) * width_);
    if (to > from) points_[i].add(kv, to - from);
    from = std::max(from, to);
  }
}

void KvSums::add(const KvUse& kv) {
  ++num_steps;
  total += static_cast<double>(kv.total);
  held += static_cast<double>(kv.held);
  filled += static_cast<double>(kv.filled);
  reserved += static_cast<double>(kv.reserved);
  unused += static_cast<double>(kv.unused);
  rounding += static_cast<double>(kv.rounding);
  running += kv.num_running;
  if (kv.unshared == 0) return;
  unshared += static_cast<double>(kv.unshared);
  held_unshared += static_cast<double>(kv.held);
}

Recorder::Recorder(int64_t num_requests, int32_t num_samples, double series_width)
    : outcomes(static_cast<size_t>(num_requests)),
      series(series_width),
      num_samples_(num_samples),
      last_token_(static_cast<size_t>(num_requests * num_samples), -1.0) {}

void Recorder::token(const DrawnToken& token, double now) {
  RequestOutcome& outcome = outcomes[static_cast<size_t>(token.request)];
  double& last = last_token_[static_cast<size_t>(token.request * num_samples_ + token.sample)];
  if (last >= 0.0) itl.add(now - last);
  last = now;
  if (outcome.first_token < 0.0) outcome.first_token = now;
  outcome.last_token = now;
  ++outcome.num_tokens;
}

void Recorder::step(const KvUse& kv, double begin, double end) {
  all_steps.add(kv);
  if (kv.blocked) blocked_steps.add(kv);
  series.add(kv, begin, end);
}

}  // namespace quire::sim
