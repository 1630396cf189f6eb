#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/terminal.h"

namespace quire::cli {
namespace {

constexpr int kMaxBarWidth = 40;
constexpr int kMinBarWidth = 10;
constexpr double kSmoothingSeconds = 3.0;

// For example "12 s left"; empty if it is not known.
std::string time_left_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0.0) return {};
  if (seconds < 60.0) return cat(fixed(seconds, 0), " s left");
  if (seconds < 3600.0) return cat(fixed(seconds / 60.0, 0), " min left");
  return cat(fixed(seconds / 3600.0, 1), " h left");
}

std::string rate_text(double rate, const std::string& unit) {
  if (unit.empty() || !std::isfinite(rate) || rate <= 0.0) return {};
  if (unit == "bytes") return cat(format_bytes(static_cast<int64_t>(rate)), "/s");
  return cat(fixed(rate, rate < 10.0 ? 1 : 0), " ", unit, "/s");
}

std::string joined(const std::vector<std::string>& parts) {
  std::vector<std::string> present;
  for (const auto& part : parts)
    if (!part.empty()) present.push_back(part);
  return join(present, ", ");
}

}  // namespace

ProgressOutput ProgressOutput::on_stderr() {
  const bool writable = has_escapes(STDERR_FILENO);
  return {.clock = monotonic_seconds,
          .columns = [writable] { return writable ? terminal_size(STDERR_FILENO).columns : 0; },
          .show = show_transient_line};
}

void RateMeter::add(double now, double total) {
  const double elapsed = now - time_;
  if (begun_ && total >= total_) {
    if (elapsed <= 0.0) return;
    const double rate = (total - total_) / elapsed;
    const double weight = std::min(1.0, elapsed / kSmoothingSeconds);
    rate_ = rate_ == 0.0 ? rate : (1.0 - weight) * rate_ + weight * rate;
  }
  begun_ = true;
  time_ = now;
  total_ = total;
}

ProgressLine::ProgressLine(ProgressOutput output, double delay, double interval)
    : output_(std::move(output)),
      delay_(delay),
      interval_(interval),
      begin_(output_.clock()),
      last_(begin_) {}

ProgressLine::~ProgressLine() {
  if (shown_) output_.show({});
}

bool ProgressLine::is_due() const {
  const double time = now();
  return time - begin_ >= delay_ && time - last_ >= interval_ && output_.columns() > 0;
}

void ProgressLine::show(const std::string& text) {
  last_ = now();
  shown_ = true;
  output_.show(text);
}

Progress generation_progress(int64_t num_finished, int64_t num_requests, int64_t num_tokens,
                             int64_t max_tokens) {
  const auto part = [](int64_t done, int64_t all) {
    return all > 0 ? static_cast<double>(done) / static_cast<double>(all) : 0.0;
  };
  return {.fraction = std::min(1.0, std::max(part(num_finished, num_requests), part(num_tokens, max_tokens))),
          .num_done = num_finished,
          .num_items = num_requests,
          .counted = static_cast<double>(num_tokens)};
}

ProgressBar::ProgressBar(std::string label, ProgressUnits units, ProgressOutput output)
    : label_(std::move(label)), units_(std::move(units)), line_(std::move(output), 1.0, 0.1) {
  rate_.add(line_.now(), 0.0);
}

void ProgressBar::update(const Progress& progress) {
  if (!line_.is_due()) return;
  rate_.add(line_.now(), progress.counted);
  line_.show(progress_text(label_, units_, progress, rate_.per_second(), line_.elapsed(), line_.columns()));
}

std::string progress_text(const std::string& label, const ProgressUnits& units, const Progress& progress,
                          double rate, double elapsed, int columns) {
  const double fraction = progress.fraction > 0.0 ? std::min(1.0, progress.fraction) : 0.0;
  std::string percent = fixed(std::floor(100.0 * fraction), 0);
  percent = std::string(3 - percent.size(), ' ') + percent + " %";
  std::string items;
  if (!units.items.empty() && progress.num_items > 0)
    items = cat(progress.num_done, " of ", progress.num_items, " ", units.items);
  const std::string speed = rate_text(rate, units.rate);
  const std::string left = fraction > 0.0 ? time_left_text(elapsed * (1.0 - fraction) / fraction) : "";

  const int width = std::max(0, columns - 1);  // the cursor is after the text
  const std::string all = joined({percent, items, speed, left});
  const int bar_width = std::min(kMaxBarWidth, width - static_cast<int>(label.size() + all.size()) - 4);
  if (bar_width >= kMinBarWidth) {
    const auto filled = static_cast<size_t>(fraction * bar_width);
    return cat(label, " [", std::string(filled, '#'),
               std::string(static_cast<size_t>(bar_width) - filled, '.'), "] ", all);
  }
  std::string text;
  for (const auto& parts : std::vector<std::vector<std::string>>{
           {percent, items, speed, left}, {percent, speed, left}, {percent, left}}) {
    text = cat(label, " ", joined(parts));
    if (text.size() <= static_cast<size_t>(width)) return text;
  }
  text.resize(static_cast<size_t>(width));
  return text;
}

DownloadProgress::DownloadProgress(std::string label, ProgressOutput output)
    : label_(std::move(label)), line_(std::move(output), 0.5, 0.2) {}

void DownloadProgress::update(uint64_t bytes, uint64_t total, const std::string& file, bool waiting) {
  if (!line_.is_due()) return;
  rate_.add(line_.now(), static_cast<double>(bytes));
  std::string text = download_text(label_, file, bytes, total, rate_.per_second(), waiting);
  const auto width = static_cast<size_t>(std::max(0, line_.columns() - 1));
  if (text.size() > width) text.resize(width);
  line_.show(text);
}

std::string download_text(const std::string& label, const std::string& file, uint64_t bytes, uint64_t total,
                          double rate, bool waiting) {
  if (total == 0) return cat("Pulling ", label, ": reading ", escape_log_text(file));
  std::string size = cat("Pulling ", label, ": ", format_bytes(static_cast<int64_t>(bytes)), " of ",
                         format_bytes(static_cast<int64_t>(total)));
  if (waiting) return size + ", waiting for another process";
  if (rate <= 0.0) return size;
  const double left = static_cast<double>(total - std::min(bytes, total)) / rate;
  return joined({size, rate_text(rate, "bytes"), time_left_text(left)});
}

}  // namespace quire::cli
