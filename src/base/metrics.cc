#include "base/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/strings.h"

namespace quire {
namespace {

std::string number_text(double v) {
  if (std::isinf(v)) return v > 0 ? "+Inf" : "-Inf";
  if (std::isnan(v)) return "NaN";
  return to_text(v);
}

// A bound as the clients of Prometheus write it, 0.0001 and not 1e-04: a query compares the texts of labels.
std::string bound_text(double bound) {
  std::array<char, 400> text;  // enough for every double
  const auto result = std::to_chars(text.data(), text.data() + text.size(), bound, std::chars_format::fixed);
  return {text.data(), result.ptr};
}

void append_escaped(std::string& out, std::string_view value) {
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
}

std::string label_text(const MetricLabels& common, const MetricLabels& labels, std::string_view extra = {}) {
  std::string out;
  for (const auto* set : {&common, &labels}) {
    for (const auto& [key, value] : *set) {
      if (!out.empty()) out += ',';
      out += key + "=\"";
      append_escaped(out, value);
      out += '"';
    }
  }
  if (!extra.empty()) out += (out.empty() ? "" : ",") + std::string(extra);
  return out.empty() ? "" : "{" + out + "}";
}

}  // namespace

Histogram::Histogram(std::span<const double> upper_bounds)
    : bounds_(upper_bounds.begin(), upper_bounds.end()) {
  for (size_t i = 0; i <= bounds_.size(); ++i) counts_.emplace_back(0);
}

void Histogram::observe(double value) {
  const auto it = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  counts_[static_cast<size_t>(it - bounds_.begin())].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

MetricsRegistry::MetricsRegistry(MetricLabels common, std::vector<std::string> prefixes)
    : common_(std::move(common)), prefixes_(std::move(prefixes)) {}

MetricsRegistry::Family& MetricsRegistry::family(std::string_view name, std::string_view help, Kind kind) {
  for (auto& f : families_) {
    if (f.name == name) return f;
  }
  families_.push_back(Family{std::string(name), std::string(help), kind, {}});
  return families_.back();
}

Counter& MetricsRegistry::counter(std::string_view name, std::string_view help, MetricLabels labels) {
  family(name, help, Kind::kCounter).series.push_back({std::move(labels), counters_.size()});
  return counters_.emplace_back();
}

Gauge& MetricsRegistry::gauge(std::string_view name, std::string_view help, MetricLabels labels) {
  family(name, help, Kind::kGauge).series.push_back({std::move(labels), gauges_.size()});
  return gauges_.emplace_back();
}

Histogram& MetricsRegistry::histogram(std::string_view name, std::string_view help,
                                      std::span<const double> bounds, MetricLabels labels) {
  family(name, help, Kind::kHistogram).series.push_back({std::move(labels), histograms_.size()});
  return histograms_.emplace_back(bounds);
}

InfoGauge& MetricsRegistry::info(std::string_view name, std::string_view help) {
  family(name, help, Kind::kInfo).series.push_back({{}, infos_.size()});
  return infos_.emplace_back();
}

void MetricsRegistry::render_family(std::string& out, const std::string& prefix, const Family& f,
                                    const MetricLabels& common) const {
  const std::string name = prefix + f.name + (f.kind == Kind::kCounter ? "_total" : "");
  const char* type = f.kind == Kind::kCounter     ? "counter"
                     : f.kind == Kind::kHistogram ? "histogram"
                                                  : "gauge";
  out += cat("# HELP ", name, " ", f.help, "\n# TYPE ", name, " ", type, "\n");
  for (const auto& series : f.series) {
    if (f.kind == Kind::kCounter) {
      out += cat(name, label_text(common, series.labels), " ", number_text(counters_[series.index].value()),
                 "\n");
    } else if (f.kind == Kind::kGauge) {
      out +=
          cat(name, label_text(common, series.labels), " ", number_text(gauges_[series.index].value()), "\n");
    } else if (f.kind == Kind::kInfo) {
      const auto [labels, value] = infos_[series.index].get();
      out += cat(name, label_text(common, labels), " ", number_text(value), "\n");
    } else {
      const Histogram& h = histograms_[series.index];
      uint64_t cumulative = 0;
      for (size_t i = 0; i <= h.bounds().size(); ++i) {
        cumulative += h.bucket(i);
        const std::string bound = i < h.bounds().size() ? bound_text(h.bounds()[i]) : "+Inf";
        out += cat(name, "_bucket", label_text(common, series.labels, cat("le=\"", bound, "\"")), " ",
                   cumulative, "\n");
      }
      out += cat(name, "_sum", label_text(common, series.labels), " ", number_text(h.sum()), "\n");
      out += cat(name, "_count", label_text(common, series.labels), " ", cumulative, "\n");
    }
  }
}

std::string MetricsRegistry::render(const MetricLabels& replaced) const {
  MetricLabels common = common_;
  for (auto& [key, value] : common) {
    for (const auto& [other_key, other_value] : replaced) {
      if (key == other_key) value = other_value;
    }
  }
  std::string out;
  for (const auto& f : families_) {
    for (const auto& prefix : prefixes_) render_family(out, prefix, f, common);
  }
  return out;
}

}  // namespace quire
