#include "cli/top/server_metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace quire::cli {
namespace {

struct Sample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0.0;
};

// Reads the labels after '{' and returns the rest of the line after '}'; nullopt if they are not complete.
std::optional<std::string_view> read_labels(std::string_view text,
                                            std::map<std::string, std::string>& labels) {
  while (!text.empty() && text.front() != '}') {
    const size_t equals = text.find("=\"");
    if (equals == std::string_view::npos) return std::nullopt;
    std::string& value = labels[std::string(text.substr(0, equals))];
    text.remove_prefix(equals + 2);
    while (!text.empty() && text.front() != '"') {
      if (text.front() == '\\' && text.size() > 1) text.remove_prefix(1);
      value += text.front();
      text.remove_prefix(1);
    }
    if (text.empty()) return std::nullopt;
    text.remove_prefix(1);
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  if (text.empty()) return std::nullopt;
  return text.substr(1);
}

std::optional<double> number(std::string_view text) {
  if (text == "+Inf") return std::numeric_limits<double>::infinity();
  double value = 0.0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || std::isnan(value)) return std::nullopt;
  return value;
}

std::optional<Sample> parse_sample(std::string_view line) {
  if (line.empty() || line.front() == '#') return std::nullopt;
  Sample sample;
  const size_t end = line.find_first_of("{ ");
  if (end == std::string_view::npos) return std::nullopt;
  sample.name = line.substr(0, end);
  std::string_view rest = line.substr(end);
  if (rest.front() == '{') {
    const auto after = read_labels(rest.substr(1), sample.labels);
    if (!after) return std::nullopt;
    rest = *after;
  }
  const size_t begin = rest.find_first_not_of(' ');
  if (begin == std::string_view::npos) return std::nullopt;
  rest = rest.substr(begin);
  const auto value = number(rest.substr(0, rest.find_first_of(" \r")));  // a time may follow
  if (!value) return std::nullopt;
  sample.value = *value;
  return sample;
}

void add_sample(ServerMetrics& metrics, const Sample& sample, std::string name) {
  const auto ending = [&name](std::string_view suffix) { return name.ends_with(suffix); };
  const auto model = sample.labels.find("model_name");
  if (model != sample.labels.end() && metrics.model.empty()) metrics.model = model->second;
  if (ending("_bucket")) {
    const auto bound = sample.labels.find("le");
    if (bound == sample.labels.end()) return;
    const auto upper = number(bound->second);
    if (upper) metrics.histograms[name.substr(0, name.size() - 7)].buckets[*upper] += sample.value;
  } else if (ending("_sum")) {
    metrics.histograms[name.substr(0, name.size() - 4)].sum += sample.value;
  } else if (ending("_count")) {
    metrics.histograms[name.substr(0, name.size() - 6)].count += sample.value;
  } else {
    if (ending("_total")) name.resize(name.size() - 6);
    metrics.values[name] += sample.value;
    ++metrics.num_series[name];
  }
}

double increase(double earlier, double later) {
  return later < earlier ? later : later - earlier;  // a server that was restarted counts from 0
}

std::optional<double> rate(const ServerMetrics& previous, const ServerMetrics& now, const std::string& name) {
  const auto first = previous.value(name);
  const auto last = now.value(name);
  const double seconds = now.time - previous.time;
  if (!first || !last || seconds <= 0.0) return std::nullopt;
  return increase(*first, *last) / seconds;
}

Percentile percentile(const std::map<double, double>& counts, double total, double fraction, double mean) {
  const double rank = fraction * total;
  double lower = 0.0;
  double before = 0.0;
  for (const auto& [upper, cumulative] : counts) {
    if (cumulative >= rank && cumulative > before) {
      if (std::isinf(upper)) return {lower, false};
      // Values are not spread evenly from 0 to the lowest bound. A part of 1 - fraction of them is not below
      // the percentile, so that the mean is another bound.
      if (lower == 0.0) return {std::min(upper, mean / (1.0 - fraction)), true};
      return {lower + (upper - lower) * (rank - before) / (cumulative - before), false};
    }
    lower = upper;
    before = cumulative;
  }
  return {lower, false};
}

}  // namespace

std::optional<double> ServerMetrics::value(const std::string& name) const {
  const auto found = values.find(name);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

ServerMetrics parse_metrics(std::string_view text, double time) {
  std::map<std::string, ServerMetrics> by_prefix;
  while (!text.empty()) {
    const size_t newline = std::min(text.find('\n'), text.size());
    const auto sample = parse_sample(text.substr(0, newline));
    text.remove_prefix(std::min(newline + 1, text.size()));
    if (!sample) continue;
    const size_t colon = sample->name.find(':');
    if (colon == std::string::npos) continue;
    add_sample(by_prefix[sample->name.substr(0, colon)], *sample, sample->name.substr(colon + 1));
  }
  for (const char* prefix : {"quire", "vllm"}) {
    const auto found = by_prefix.find(prefix);
    if (found == by_prefix.end()) continue;
    found->second.time = time;
    return found->second;
  }
  throw Error("/metrics has neither quire: nor vllm: metrics; the server must be quire or vLLM");
}

std::optional<HistogramSummary> summarize(const MetricHistogram& earlier, const MetricHistogram& later) {
  const bool restarted = later.count < earlier.count;
  const MetricHistogram none;
  const MetricHistogram& base = restarted ? none : earlier;
  const double count = later.count - base.count;
  if (count <= 0.0) return std::nullopt;
  std::map<double, double> counts;
  for (const auto& [upper, cumulative] : later.buckets) {
    const auto before = base.buckets.find(upper);
    counts[upper] = cumulative - (before == base.buckets.end() ? 0.0 : before->second);
  }
  const double mean = (later.sum - base.sum) / count;
  return HistogramSummary{mean, percentile(counts, count, 0.5, mean), percentile(counts, count, 0.9, mean),
                          percentile(counts, count, 0.99, mean)};
}

ServerActivity activity_of(const ServerMetrics& base, const ServerMetrics& previous,
                           const ServerMetrics& now) {
  ServerActivity activity;
  activity.running = now.value("num_requests_running");
  activity.waiting = now.value("num_requests_waiting");
  activity.preemptions = now.value("num_preemptions");
  activity.finished = now.value("request_success");
  // Each engine of a server with data parallelism reports its own usage.
  for (const char* name : {"kv_cache_usage_perc", "gpu_cache_usage_perc"}) {
    const auto usage = now.value(name);
    if (usage && !activity.kv_usage) activity.kv_usage = *usage / now.num_series.at(name);
  }
  activity.prompt_rate = rate(previous, now, "prompt_tokens");
  activity.generation_rate = rate(previous, now, "generation_tokens");
  activity.request_rate = rate(previous, now, "request_success");
  const auto queries = now.value("prefix_cache_queries");
  const auto hits = now.value("prefix_cache_hits");
  if (queries && hits) {
    const double looked_up = increase(base.value("prefix_cache_queries").value_or(0.0), *queries);
    const double found = increase(base.value("prefix_cache_hits").value_or(0.0), *hits);
    if (looked_up > 0.0) activity.prefix_hit_rate = found / looked_up;
  }
  const auto latency = [&](std::initializer_list<const char*> names) -> std::optional<HistogramSummary> {
    for (const char* name : names) {
      const auto later = now.histograms.find(name);
      if (later == now.histograms.end()) continue;
      const auto earlier = base.histograms.find(name);
      return summarize(earlier == base.histograms.end() ? MetricHistogram{} : earlier->second, later->second);
    }
    return std::nullopt;
  };
  activity.ttft = latency({"time_to_first_token_seconds"});
  // Older versions of vLLM have only time_per_output_token_seconds, which is the latency between tokens.
  activity.tpot = latency({"request_time_per_output_token_seconds", "time_per_output_token_seconds"});
  activity.itl = latency({"inter_token_latency_seconds", "time_per_output_token_seconds"});
  activity.e2e = latency({"e2e_request_latency_seconds"});
  activity.queue = latency({"request_queue_time_seconds"});
  return activity;
}

}  // namespace quire::cli
