// The metrics of a server in Prometheus' text format, and what they say about a period of time.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::cli {

// A cumulative histogram, added up over its label sets.
struct MetricHistogram {
  std::map<double, double> buckets;  // upper bound -> number of values up to it
  double sum = 0.0;
  double count = 0.0;
};

// One scrape of a server. Values that the server does not export are missing.
struct ServerMetrics {
  double time = 0.0;  // when it was read, monotonic seconds
  std::string model;
  std::map<std::string, double> values;  // name without prefix and _total, added up over labels
  std::map<std::string, int> num_series;
  std::map<std::string, MetricHistogram> histograms;

  std::optional<double> value(const std::string& name) const;
};

// Parses the metrics with the prefix quire:, or, if there are none, vllm:. Lines of other metrics are
// ignored. Throws Error if the text has neither.
ServerMetrics parse_metrics(std::string_view text, double time);

// Seconds, interpolated within a bucket. In the lowest bucket, `value` is only an upper bound.
struct Percentile {
  double value = 0.0;
  bool is_bound = false;
};

struct HistogramSummary {  // seconds
  double mean = 0.0;
  Percentile p50, p90, p99;
};

// nullopt if `later` has no value that `earlier` lacks.
std::optional<HistogramSummary> summarize(const MetricHistogram& earlier, const MetricHistogram& later);

// The activity of a server, from two scrapes. Rates are over the time between them.
struct ServerActivity {
  std::optional<double> running, waiting, kv_usage, preemptions, finished;
  std::optional<double> prompt_rate, generation_rate, request_rate;  // per second
  std::optional<double> prefix_hit_rate;                             // 0 to 1
  std::optional<HistogramSummary> ttft, tpot, itl, e2e, queue;
};
// `base` is the start of the period for latencies and the prefix hit rate; an empty record stands for the
// start of the server.
ServerActivity activity_of(const ServerMetrics& base, const ServerMetrics& previous,
                           const ServerMetrics& now);

}  // namespace quire::cli
