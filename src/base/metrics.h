// Counters, gauges and histograms in the Prometheus text format. A registry belongs to an engine; its metrics
// live as long as it does. Updating is lock-free and may happen on any thread; registering happens before the
// threads start.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

class Counter {
 public:
  void add(double amount = 1.0) { value_.fetch_add(amount, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0.0};
};

class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0.0};
};

class Histogram {
 public:
  explicit Histogram(std::span<const double> upper_bounds);
  void observe(double value);
  std::span<const double> bounds() const { return bounds_; }
  uint64_t bucket(size_t i) const {
    return counts_[i].load(std::memory_order_relaxed);
  }  // not cumulative; the last is +Inf
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::vector<double> bounds_;
  std::deque<std::atomic<uint64_t>> counts_;
  std::atomic<double> sum_{0.0};
};

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// A gauge whose labels change: a single line, with the labels that were set last. Any thread.
class InfoGauge {
 public:
  void set(MetricLabels labels, double value) {
    const std::lock_guard lock(mutex_);
    labels_ = std::move(labels);
    value_ = value;
  }
  std::pair<MetricLabels, double> get() const {
    const std::lock_guard lock(mutex_);
    return {labels_, value_};
  }

 private:
  mutable std::mutex mutex_;
  MetricLabels labels_;
  double value_ = 0.0;
};

class MetricsRegistry {
 public:
  // `common` labels are added to every line. Each metric is written once per prefix ("quire:", "vllm:").
  explicit MetricsRegistry(MetricLabels common, std::vector<std::string> prefixes = {"quire:", "vllm:"});

  // name without prefix; a counter's exported name ends in _total. Several calls with one name and different
  // labels form one family.
  Counter& counter(std::string_view name, std::string_view help, MetricLabels labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, MetricLabels labels = {});
  Histogram& histogram(std::string_view name, std::string_view help, std::span<const double> bounds,
                       MetricLabels labels = {});
  InfoGauge& info(std::string_view name, std::string_view help);

  // The whole page. `replaced`: other values of common labels.
  std::string render(const MetricLabels& replaced = {}) const;

 private:
  enum class Kind { kCounter, kGauge, kHistogram, kInfo };
  struct Series {
    MetricLabels labels;
    size_t index;
  };
  struct Family {
    std::string name;
    std::string help;
    Kind kind;
    std::vector<Series> series;
  };
  Family& family(std::string_view name, std::string_view help, Kind kind);
  void render_family(std::string& out, const std::string& prefix, const Family& family,
                     const MetricLabels& common) const;

  MetricLabels common_;
  std::vector<std::string> prefixes_;
  std::vector<Family> families_;
  std::deque<Counter> counters_;
  std::deque<Gauge> gauges_;
  std::deque<Histogram> histograms_;
  std::deque<InfoGauge> infos_;
};

}  // namespace quire
