#include "sim/plots.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/strings.h"
#include "sim/chart.h"

namespace quire::sim {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kTimeBins = 60;

// Returns the q-th percentile (0 to 100) of unsorted values; NaN if there are none.
double percentile(std::vector<double>& values, double q) {
  if (values.empty()) return kNaN;
  const auto at = static_cast<ptrdiff_t>(std::llround(q / 100.0 * static_cast<double>(values.size() - 1)));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<size_t>(at)];
}

// One value in ms per successful request, grouped by bins of arrival time.
template <typename Value>
std::vector<std::vector<double>> by_arrival(const Trace& trace, const SimResult& result, double width,
                                            Value&& value) {
  std::vector<std::vector<double>> bins(kTimeBins);
  for (size_t i = 0; i < result.outcomes.size(); ++i) {
    if (!result.outcomes[i].done()) continue;
    const double ms = 1e3 * value(trace.requests[i], result.outcomes[i]);
    if (ms <= 0.0) continue;
    const size_t bin = std::min(kTimeBins - 1, static_cast<size_t>(trace.requests[i].arrival / width));
    bins[bin].push_back(ms);
  }
  return bins;
}

Chart percentile_chart(std::string title, std::vector<std::vector<double>> bins, double width) {
  Chart chart;
  chart.title = std::move(title);
  chart.x_label = "arrival (s)";
  chart.y_label = "ms";
  chart.log_y = true;
  for (const double q : {50.0, 90.0, 99.0}) {
    ChartLine& added = chart.lines.emplace_back();
    added.name = cat("p", static_cast<int>(q));
    for (size_t i = 0; i < bins.size(); ++i)
      added.points.emplace_back((static_cast<double>(i) + 0.5) * width, percentile(bins[i], q));
  }
  return chart;
}

// The cumulative distribution of the values, with one point per percent.
ChartLine distribution_line(std::string name, const std::vector<std::vector<double>>& bins) {
  std::vector<double> all;
  for (const auto& bin : bins) all.insert(all.end(), bin.begin(), bin.end());
  std::sort(all.begin(), all.end());
  ChartLine added;
  added.name = std::move(name);
  if (all.empty()) return added;
  for (int percent = 0; percent <= 100; ++percent) {
    const size_t at =
        static_cast<size_t>(std::llround(percent / 100.0 * static_cast<double>(all.size() - 1)));
    added.points.emplace_back(percent, all[at]);
  }
  return added;
}

}  // namespace

std::string latency_plot(const std::string& subtitle, const Trace& trace, const SimResult& result,
                         int32_t num_samples) {
  const double width = std::max(trace.duration(), 1e-3) / kTimeBins;
  const auto first = by_arrival(trace, result, width,
                                [](const TraceRequest& r, const RequestOutcome& o) { return ttft(r, o); });
  const auto each = by_arrival(
      trace, result, width,
      [num_samples](const TraceRequest&, const RequestOutcome& o) { return tpot(o, num_samples); });
  Chart distribution;
  distribution.title = "Percentiles over all requests";
  distribution.x_label = "percentile";
  distribution.y_label = "ms";
  distribution.log_y = true;
  distribution.colour = 3;
  distribution.lines = {distribution_line("TTFT", first), distribution_line("TPOT", each)};
  return svg_page(
      "Latency", subtitle,
      {draw(percentile_chart("Time to the first token (TTFT)", first, width)),
       draw(percentile_chart("Time for each further token (TPOT)", each, width)), draw(distribution)});
}

std::string memory_plot(const std::string& subtitle, const SimResult& result) {
  // End at the last point with a running sequence.
  const std::vector<SeriesPoint>& points = result.series.points();
  size_t end = points.size();
  while (end > 1 && points[end - 1].busy <= 0.0) --end;
  const double width = result.series.width();
  const double slots = std::max(1.0, static_cast<double>(result.pool_slots)) * width / 100.0;
  const auto part = [&](const char* name, auto value) {
    ChartLine added{name, {}};
    for (size_t i = 0; i < end; ++i)
      added.points.emplace_back((static_cast<double>(i) + 0.5) * width, value(points[i]) / slots);
    return added;
  };
  Chart use;
  use.title = "KV pool";
  use.x_label = "time (s)";
  use.y_label = "% of the pool";
  use.kind = ChartKind::kStackedAreas;
  use.y_max = 100.0;
  use.lines = {part("filled", [](const SeriesPoint& p) { return p.filled; }),
               part("wasted", [](const SeriesPoint& p) { return p.held - p.filled; })};
  Chart waste;
  waste.title = "Waste: slots held without a token, of those held";
  waste.x_label = "time (s)";
  waste.y_label = "%";
  waste.colour = 1;
  ChartLine& wasted = waste.lines.emplace_back();
  wasted.name = "waste";
  for (size_t i = 0; i < end; ++i) {
    const double held = points[i].held;
    wasted.points.emplace_back((static_cast<double>(i) + 0.5) * width,
                               held > 0.0 ? 100.0 * (held - points[i].filled) / held : kNaN);
  }
  Chart sequences;
  sequences.title = "Sequences";
  sequences.x_label = "time (s)";
  sequences.y_label = "sequences, mean";
  sequences.colour = 2;
  sequences.lines = {ChartLine{"running", {}}, ChartLine{"waiting", {}}};
  for (size_t i = 0; i < end; ++i) {
    const double at = (static_cast<double>(i) + 0.5) * width;
    sequences.lines[0].points.emplace_back(at, points[i].running / width);
    sequences.lines[1].points.emplace_back(at, points[i].waiting / width);
  }
  return svg_page("KV memory", subtitle, {draw(use), draw(waste), draw(sequences)});
}

std::string managers_plot(const std::string& subtitle, const std::vector<ManagerBar>& managers) {
  BarChart parts;
  parts.title = "The pool while a request waits for memory";
  parts.y_label = "% of the pool";
  parts.y_max = 100.0;
  parts.part_names = {"tokens", "reserved", "internal", "external"};
  BarChart running;
  running.title = "Sequences that run meanwhile";
  running.y_label = "sequences, mean";
  running.colour = 2;
  for (const ManagerBar& manager : managers) {
    const KvSums& sums = manager.pressure;
    parts.bars.push_back(
        {manager.name,
         {100.0 * sums.part(sums.filled), 100.0 * sums.part(sums.reserved), 100.0 * sums.part(sums.unused),
          100.0 * sums.part(sums.rounding + sums.total - sums.held)}});
    running.bars.push_back({manager.name, {sums.mean_running()}});
  }
  return svg_page("Memory managers on the same trace", subtitle, {draw(parts), draw(running)});
}

std::string capacity_plot(const std::string& subtitle, const CapacityPlan& plan, double target) {
  Chart chart;
  chart.title = "Requests that meet the objectives";
  chart.x_label = "replicas";
  chart.y_label = "% of the requests";
  chart.y_max = 100.0;
  chart.goal = 100.0 * target;
  chart.goal_name = "target";
  ChartLine& good = chart.lines.emplace_back();
  good.name = "good";
  for (const CapacityTrial& trial : plan.trials)
    good.points.emplace_back(trial.replicas, 100.0 * trial.good_fraction);
  return svg_page("Replicas", subtitle, {draw(chart)});
}

std::string sharing_plot(const std::string& subtitle, const std::vector<SharingPoint>& points) {
  std::vector<std::string> panels;
  int colour = 0;
  for (const char* method : {"parallel sampling", "beam search"}) {
    BarChart chart;
    chart.title = cat("Blocks saved, ", method);
    chart.y_label = "% of the blocks";
    chart.y_max = 100.0;
    chart.colour = colour++;
    for (const SharingPoint& point : points) {
      if (point.method == method) chart.bars.push_back({cat(point.width), {100.0 * point.saved}});
    }
    panels.push_back(draw(chart));
  }
  return svg_page("Memory saved by sharing", subtitle, panels);
}

}  // namespace quire::sim
