// The lines of `quire top`.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "cli/top/server_metrics.h"

namespace quire::cli {

// Figures of the last readings, the latest one last.
class TopHistory {
 public:
  void add(const ServerActivity& activity);

  const std::deque<double>& prompt_rates() const { return prompt_rates_; }
  const std::deque<double>& generation_rates() const { return generation_rates_; }
  const std::deque<double>& kv_usage() const { return kv_usage_; }

 private:
  std::deque<double> prompt_rates_, generation_rates_, kv_usage_;
};

struct ViewStyle {
  int columns = 80;
  bool colors = false;
};

// Columns of block characters for the latest `width` values. `top` is the value of a full column; 0 = the
// largest of them.
std::string sparkline(const std::deque<double>& values, size_t width, double top);

// "12.3 ms", "1.50 s"; "< 1 ms" if only a bound is known.
std::string latency_text(const Percentile& latency);

// The figures of a server. history: charts; null = plain text. period: the time of latencies and hit rate.
std::vector<std::string> server_view(const std::string& model, const ServerActivity& activity,
                                     const std::string& period, const ViewStyle& style,
                                     const TopHistory* history);

}  // namespace quire::cli
