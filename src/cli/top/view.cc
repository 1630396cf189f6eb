#include "cli/top/view.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/strings.h"
#include "cli/terminal.h"

namespace quire::cli {
namespace {

constexpr size_t kRowLabelWidth = 14;
constexpr size_t kCellWidth = 11;
constexpr size_t kPlainBarWidth = 30;
constexpr double kRoundingError = 1e-6;  // of milliseconds, so that a bound of 2 does not become 3
constexpr size_t kMaxHistory = 1000;     // columns of the widest terminal
// KV cache usage from which preemptions are near.
constexpr double kBusyUsage = 0.7;
constexpr double kFullUsage = 0.9;

constexpr std::string_view kBoldSgr = "1";
constexpr std::string_view kDimSgr = "2";
constexpr std::string_view kRedSgr = "31";
constexpr std::string_view kGreenSgr = "32";
constexpr std::string_view kYellowSgr = "33";
constexpr std::string_view kCyanSgr = "36";

std::string painted(const std::string& text, std::string_view color, const ViewStyle& style) {
  return style.colors && !text.empty() ? cat("\x1b[", color, "m", text, "\x1b[0m") : text;
}

std::string label(const std::string& name, const ViewStyle& style) {
  return painted(name, kBoldSgr, style) + std::string(kRowLabelWidth - name.size(), ' ');
}

std::string text_of(const std::optional<double>& value, int decimals) {
  return value ? fixed(*value, decimals) : "-";
}

std::string right_aligned(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string repeat_text(std::string_view text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

size_t chart_width(const ViewStyle& style) {
  return static_cast<size_t>(std::max(10, style.columns - static_cast<int>(kRowLabelWidth)));
}

// The use of the KV cache as a bar, which takes the width that `text` leaves.
std::string usage_bar(double usage, const std::string& text, const ViewStyle& style, bool live) {
  const size_t frame = kRowLabelWidth + 3 + text.size();
  const auto columns = static_cast<size_t>(style.columns);
  const size_t width = !live ? kPlainBarWidth : std::max<size_t>(10, columns - std::min(columns, frame));
  const auto filled =
      static_cast<size_t>(std::lround(std::clamp(usage, 0.0, 1.0) * static_cast<double>(width)));
  const std::string_view color = usage < kBusyUsage ? kGreenSgr : usage < kFullUsage ? kYellowSgr : kRedSgr;
  return cat("[", painted(repeat_text(live ? "█" : "#", filled), color, style),
             repeat_text(live ? "░" : ".", width - filled), "] ");
}

std::string kv_line(const ServerActivity& a, const ViewStyle& style, bool live) {
  const std::string preemptions = cat(", ", text_of(a.preemptions, 0), " preemptions");
  if (!a.kv_usage) return cat(label("KV cache", style), "-", preemptions);
  const std::string text = cat(fixed(100.0 * *a.kv_usage, 1), " %", preemptions);
  return cat(label("KV cache", style), usage_bar(*a.kv_usage, text, style, live), text);
}

std::string rate_line(const std::string& name, const std::optional<double>& rate, const ViewStyle& style,
                      const std::deque<double>* history) {
  std::string line = cat(label(name, style), text_of(rate, 1), " tokens/s");
  if (history != nullptr && !history->empty()) {
    const size_t shown = std::min(history->size(), chart_width(style));
    const double peak =
        *std::max_element(history->end() - static_cast<std::ptrdiff_t>(shown), history->end());
    line += painted(cat("  (peak ", fixed(peak, 1), ")"), kDimSgr, style);
  }
  return line;
}

std::string chart_line(const std::deque<double>& values, double top, const ViewStyle& style) {
  return std::string(kRowLabelWidth, ' ') +
         painted(sparkline(values, chart_width(style), top), kCyanSgr, style);
}

std::string latency_line(const std::string& name, const std::optional<HistogramSummary>& latency,
                         const ViewStyle& style) {
  std::string line = label(name, style);
  if (!latency) return line + right_aligned("-", kCellWidth);
  line += right_aligned(latency_text({latency->mean, false}), kCellWidth);
  for (const Percentile* p : {&latency->p50, &latency->p90, &latency->p99})
    line += right_aligned(latency_text(*p), kCellWidth);
  return line;
}

}  // namespace

void TopHistory::add(const ServerActivity& activity) {
  const auto append = [](std::deque<double>& values, const std::optional<double>& value) {
    if (value) values.push_back(*value);
    if (values.size() > kMaxHistory) values.pop_front();
  };
  append(prompt_rates_, activity.prompt_rate);
  append(generation_rates_, activity.generation_rate);
  append(kv_usage_, activity.kv_usage);
}

std::string sparkline(const std::deque<double>& values, size_t width, double top) {
  static constexpr const char* kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const size_t shown = std::min(width, values.size());
  const auto begin = values.end() - static_cast<std::ptrdiff_t>(shown);
  if (top <= 0.0 && shown > 0) top = *std::max_element(begin, values.end());
  std::string out;
  for (auto value = begin; value != values.end(); ++value) {
    // Small values are visible, too.
    const double part = top > 0.0 ? std::clamp(*value / top, 0.0, 1.0) : 0.0;
    out += kBlocks[part > 0.0 ? std::max<int64_t>(1, std::lround(8.0 * part)) : 0];
  }
  return out;
}

std::string latency_text(const Percentile& latency) {
  const double ms = 1e3 * latency.value;
  if (!latency.is_bound && ms >= 0.05)
    return ms < 1e3 ? cat(fixed(ms, 1), " ms") : cat(fixed(latency.value, 2), " s");
  if (ms <= 1.0) return ms <= 0.1 ? "< 0.1 ms" : "< 1 ms";
  return ms < 1e3 ? cat("< ", fixed(std::ceil(ms - kRoundingError), 0), " ms")
                  : cat("< ", fixed(latency.value, 2), " s");
}

std::vector<std::string> server_view(const std::string& model, const ServerActivity& a,
                                     const std::string& period, const ViewStyle& style,
                                     const TopHistory* history) {
  std::vector<std::string> lines;
  const std::string waiting = cat(text_of(a.waiting, 0), " waiting");
  lines.push_back(label("Model", style) + without_controls(model));
  lines.push_back(cat(label("Requests", style), text_of(a.running, 0), " running, ",
                      a.waiting.value_or(0.0) > 0.0 ? painted(waiting, kYellowSgr, style) : waiting, ", ",
                      text_of(a.finished, 0), " finished (", text_of(a.request_rate, 1), "/s)"));
  lines.push_back(kv_line(a, style, history != nullptr));
  if (history != nullptr) lines.push_back(chart_line(history->kv_usage(), 1.0, style));
  lines.push_back(cat(label("Prefix cache", style),
                      a.prefix_hit_rate ? fixed(100.0 * *a.prefix_hit_rate, 1) + " %" : std::string("-"),
                      " hit rate"));
  lines.push_back(
      rate_line("Prompt", a.prompt_rate, style, history == nullptr ? nullptr : &history->prompt_rates()));
  if (history != nullptr) lines.push_back(chart_line(history->prompt_rates(), 0.0, style));
  lines.push_back(rate_line("Generation", a.generation_rate, style,
                            history == nullptr ? nullptr : &history->generation_rates()));
  if (history != nullptr) lines.push_back(chart_line(history->generation_rates(), 0.0, style));
  lines.emplace_back();
  std::string header = label("Latency", style);
  for (const char* column : {"mean", "p50", "p90", "p99"}) header += right_aligned(column, kCellWidth);
  lines.push_back(cat(header, "   ", painted(period, kDimSgr, style)));
  lines.push_back(latency_line("TTFT", a.ttft, style));
  lines.push_back(latency_line("TPOT", a.tpot, style));
  lines.push_back(latency_line("ITL", a.itl, style));
  lines.push_back(latency_line("End to end", a.e2e, style));
  lines.push_back(latency_line("Queue", a.queue, style));
  return lines;
}

}  // namespace quire::cli
