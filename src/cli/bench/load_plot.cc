#include "cli/bench/load_plot.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/strings.h"
#include "sim/chart.h"

namespace quire::cli {
namespace {

constexpr size_t kMostRows = 100;  // rows of the timeline
constexpr size_t kTimeBins = 60;

// Multiples of 1, 2 and 5 of powers of ten, as numbers and text.
struct Edge {
  double value = 0.0;
  std::string text;
};
Edge edge(int index) {
  constexpr std::array<int, 3> kDigits = {1, 2, 5};
  const int power = static_cast<int>(std::floor(index / 3.0));
  const int digit = kDigits[static_cast<size_t>(index - 3 * power)];
  return {digit * std::pow(10.0, power), fixed(digit * std::pow(10.0, power), std::max(0, -power))};
}
// The index of the last edge that is not above the value.
int edge_below(double value) {
  constexpr double kRounding = 1e-9;
  int index = 3 * static_cast<int>(std::floor(std::log10(value)));
  while (edge(index + 1).value <= value * (1.0 + kRounding)) ++index;
  return index;
}

// The number of requests by milliseconds, in logarithmic bins.
sim::BarChart histogram(std::string title, const std::vector<double>& seconds, int colour) {
  sim::BarChart chart;
  chart.title = std::move(title);
  chart.y_label = "requests";
  chart.decimals = 0;
  chart.colour = colour;
  std::vector<double> ms;
  for (const double s : seconds) {
    if (s > 0.0) ms.push_back(1e3 * s);
  }
  if (ms.empty()) return chart;
  const auto [low, high] = std::minmax_element(ms.begin(), ms.end());
  const int first = edge_below(*low);
  const int last = edge_below(*high);
  for (int i = first; i <= last; ++i)
    chart.bars.push_back({cat(edge(i).text, "\u2013", edge(i + 1).text), {0.0}});
  for (const double value : ms) chart.bars[static_cast<size_t>(edge_below(value) - first)].parts[0] += 1.0;
  return chart;
}

// Tokens of a chunk. Servers that do not report them send about one in each.
double tokens_of(const RequestRecord& record, size_t chunk) {
  const int32_t reported = record.chunk_tokens[chunk];
  if (reported > 0) return reported;
  return static_cast<double>(record.output_tokens) / static_cast<double>(record.chunk_times.size());
}

sim::Chart throughput(const std::vector<const RequestRecord*>& records, double begin, double end) {
  sim::Chart chart;
  chart.title = "Output tokens";
  chart.x_label = "time (s)";
  chart.y_label = "tokens/s";
  const double width = std::max(end - begin, 1e-3) / static_cast<double>(kTimeBins);
  std::vector<double> sums(kTimeBins);
  for (const RequestRecord* record : records) {
    for (size_t i = 0; i < record->chunk_times.size(); ++i) {
      const auto bin = static_cast<size_t>((record->chunk_times[i] - begin) / width);
      sums[std::min(bin, kTimeBins - 1)] += tokens_of(*record, i);
    }
  }
  sim::ChartLine& line = chart.lines.emplace_back();
  line.name = "all requests";
  for (size_t i = 0; i < kTimeBins; ++i)
    line.points.emplace_back((static_cast<double>(i) + 0.5) * width, sums[i] / width);
  return chart;
}

sim::Timeline timeline(const std::vector<const RequestRecord*>& records, double begin) {
  sim::Timeline chart;
  const size_t step = (records.size() + kMostRows - 1) / kMostRows;
  chart.title = step <= 1 ? "Requests" : cat("Requests: one of ", step);
  chart.x_label = "time (s)";
  chart.y_label = "requests by time of submission";
  chart.part_names = {"until the first token", "further tokens"};
  chart.colour = 1;
  for (size_t i = 0; i < records.size(); i += step) {
    const RequestRecord& record = *records[i];
    chart.rows.push_back(
        {record.begin - begin, {record.chunk_times.front() - begin, record.chunk_times.back() - begin}});
  }
  return chart;
}

}  // namespace

std::string load_plot(const std::string& subtitle, const std::vector<RequestRecord>& records) {
  std::vector<const RequestRecord*> good;
  for (const RequestRecord& record : records) {
    if (record.ok() && !record.chunk_times.empty()) good.push_back(&record);
  }
  std::ranges::stable_sort(good, {}, &RequestRecord::begin);
  std::vector<double> ttft;
  std::vector<double> tpot;
  double end = 0.0;
  for (const RequestRecord* record : good) {
    ttft.push_back(record->ttft());
    if (record->output_tokens > 1) tpot.push_back(record->tpot());
    end = std::max(end, record->chunk_times.back());
  }
  const double begin = good.empty() ? 0.0 : good.front()->begin;
  return sim::svg_page("Load", subtitle,
                       {draw(histogram("Time to the first token (TTFT), in ms", ttft, 0)),
                        draw(histogram("Time for each further token (TPOT), in ms", tpot, 2)),
                        draw(throughput(good, begin, std::max(begin, end))), draw(timeline(good, begin))});
}

}  // namespace quire::cli
