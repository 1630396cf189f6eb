// Records the results of a simulation: request latencies, inter-token latencies, and the use of the KV pool
// over time. Memory does not grow with the number of steps. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/replica.h"

namespace quire::sim {

// A histogram of durations whose buckets grow by 0.2 %, which is the precision of percentiles.
class LogHistogram {
 public:
  LogHistogram();
  void add(double seconds);
  int64_t count() const { return count_; }
  double mean() const { return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_); }
  // Returns the q-th percentile (0 to 100), or 0 if the histogram is empty.
  double percentile(double q) const;

 private:
  std::vector<int64_t> buckets_;
  int64_t count_ = 0;
  double sum_ = 0.0;
  double last_ = -1.0;  // equal durations often repeat; caches the bucket
  size_t last_bucket_ = 0;
};

// Sums over an interval of time and all replicas.
struct SeriesPoint {
  double busy = 0.0;  // replica-seconds in steps
  double held = 0.0;  // slots x seconds, as in KvUse, like the next four
  double filled = 0.0;
  double reserved = 0.0;
  double unused = 0.0;
  double rounding = 0.0;
  double running = 0.0;  // sequences x seconds
  double waiting = 0.0;

  void add(const KvUse& kv, double seconds);
  SeriesPoint& operator+=(const SeriesPoint& other);
};

// A fixed number of points over an unknown duration: when time passes the end, pairs of points are merged.
class TimeSeries {
 public:
  static constexpr size_t kNumPoints = 512;

  explicit TimeSeries(double width) : width_(width), points_(kNumPoints) {}
  void add(const KvUse& kv, double begin, double end);
  double width() const { return width_; }  // seconds per point
  const std::vector<SeriesPoint>& points() const { return points_; }

 private:
  double width_;
  std::vector<SeriesPoint> points_;
};

// Sums of KvUse over steps.
struct KvSums {
  int64_t num_steps = 0;
  double total = 0.0;
  double held = 0.0;
  double filled = 0.0;
  double reserved = 0.0;
  double unused = 0.0;
  double rounding = 0.0;
  double running = 0.0;        // sequences
  double unshared = 0.0;       // over the steps that report it
  double held_unshared = 0.0;  // slots held in those steps

  void add(const KvUse& kv);
  double part(double slots) const { return total > 0.0 ? slots / total : 0.0; }
  // Fraction of held slots that contain no token.
  double waste() const { return held > 0.0 ? (held - filled) / held : 0.0; }
  double mean_running() const { return num_steps == 0 ? 0.0 : running / static_cast<double>(num_steps); }
  // Fraction of blocks saved by sharing between samples.
  double saved() const { return unshared > 0.0 ? (unshared - held_unshared) / unshared : 0.0; }
};

struct RequestOutcome {
  double first_token = -1.0;  // seconds since the start of the trace; negative = rejected
  double last_token = -1.0;
  int32_t num_tokens = 0;  // generated tokens of all samples
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
  KvSums blocked_steps;  // steps in which a request waited for memory only

 private:
  int32_t num_samples_;
  std::vector<double> last_token_;  // [num_requests * num_samples]
};

}  // namespace quire::sim
