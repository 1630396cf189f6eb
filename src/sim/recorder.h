// What a simulation is asked for, taken down while it runs: times of requests, gaps between tokens, and the
// KV pool over time. Memory does not grow with the number of steps. Used by one thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/replica.h"

namespace quire::sim {

// Durations counted in buckets that grow by 0.2 %: percentiles are exact to that.
class LogHistogram {
 public:
  LogHistogram();
  void add(double seconds);
  int64_t count() const { return count_; }
  double mean() const { return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_); }
  // The q-th percentile (0 to 100); 0 of nothing.
  double percentile(double q) const;

 private:
  std::vector<int64_t> buckets_;
  int64_t count_ = 0;
  double sum_ = 0.0;
  double last_ = -1.0;  // most durations come many times in a row
  size_t last_bucket_ = 0;
};

// The mean of what was going on in a piece of time, over all replicas.
struct SeriesPoint {
  double busy = 0.0;  // replica-seconds in steps
  double held = 0.0;  // slots x seconds, as in KvUse; likewise the following
  double filled = 0.0;
  double reserved = 0.0;
  double unused = 0.0;
  double rounding = 0.0;
  double running = 0.0;  // sequences x seconds
  double waiting = 0.0;

  void add(const KvUse& kv, double seconds);
  SeriesPoint& operator+=(const SeriesPoint& other);
};

// A fixed number of points over a time that is not known before: when it grows, two points become one.
class TimeSeries {
 public:
  static constexpr size_t kNumPoints = 512;

  explicit TimeSeries(double width) : width_(width), points_(kNumPoints) {}
  void add(const KvUse& kv, double begin, double end);
  double width() const { return width_; }  // seconds of a point
  const std::vector<SeriesPoint>& points() const { return points_; }

 private:
  double width_;
  std::vector<SeriesPoint> points_;
};

// Slots over all steps, for means.
struct KvSums {
  int64_t num_steps = 0;
  double total = 0.0;
  double held = 0.0;
  double filled = 0.0;
  double reserved = 0.0;
  double unused = 0.0;
  double rounding = 0.0;
  double running = 0.0;        // sequences
  double unshared = 0.0;       // of steps where it is known
  double held_unshared = 0.0;  // held, in those steps

  void add(const KvUse& kv);
  double part(double slots) const { return total > 0.0 ? slots / total : 0.0; }
  // Slots held by sequences without a token in them, as a part of the slots held.
  double waste() const { return held > 0.0 ? (held - filled) / held : 0.0; }
  double mean_running() const { return num_steps == 0 ? 0.0 : running / static_cast<double>(num_steps); }
  // Blocks that sharing between samples saved, as a part of what they would need without.
  double saved() const { return unshared > 0.0 ? (unshared - held_unshared) / unshared : 0.0; }
};

struct RequestOutcome {
  double first_token = -1.0;  // seconds after the trace's begin; below 0: refused
  double last_token = -1.0;
  int32_t num_tokens = 0;  // drawn, of all samples
  int32_t replica = -1;

  bool done() const { return first_token >= 0.0; }
};

class Recorder {
 public:
  Recorder(int64_t num_requests, int32_t num_samples, double series_width);

  void token(const DrawnToken& token, double now);
  void step(const KvUse& kv, double begin, double end);
  void routed(int64_t request, int32_t replica) { outcomes[static_cast<size_t>(request)].replica = replica; }

  std::vector<RequestOutcome> outcomes;  // [num_requests]
  LogHistogram itl;                      // gaps between the tokens of a sample
  TimeSeries series;
  KvSums all_steps;
  KvSums blocked_steps;  // those in which a request waited for memory alone

 private:
  int32_t num_samples_;
  std::vector<double> last_token_;  // [num_requests * num_samples]
};

}  // namespace quire::sim
