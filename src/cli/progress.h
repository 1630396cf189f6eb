// Progress on stderr: one line that is updated and cleared at the end. Nothing is written if stderr is not a
// terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <string_view>
#include <utility>

namespace quire::cli {

// The clock and the terminal of a progress line. Tests replace it.
struct ProgressOutput {
  std::function<double()> clock;                    // seconds
  std::function<int()> columns;                     // width of the terminal; 0 = nothing is written
  std::function<void(std::string_view text)> show;  // replaces the line; an empty text clears it
  static ProgressOutput on_stderr();
};

// A rate per second, smoothed over about three seconds.
class RateMeter {
 public:
  // `total` has been counted until `now`. The first total, and one that is smaller than the last, only begin
  // a new measurement.
  void add(double now, double total);
  double per_second() const { return rate_; }

 private:
  bool begun_ = false;
  double time_ = 0.0;
  double total_ = 0.0;
  double rate_ = 0.0;
};

// A line that appears after `delay` seconds and is updated at most once per `interval`.
class ProgressLine {
 public:
  ProgressLine(ProgressOutput output, double delay, double interval);
  ~ProgressLine();  // clears the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Returns true if it is time to call show().
  bool is_due() const;
  void show(const std::string& text);
  double now() const { return output_.clock(); }
  double elapsed() const { return now() - begin_; }
  int columns() const { return output_.columns(); }

 private:
  ProgressOutput output_;
  double delay_, interval_;
  double begin_;
  double last_;
  bool shown_ = false;
};

// Units of a ProgressBar as plural nouns; empty = not shown.
struct ProgressUnits {
  std::string items;  // num_done of num_items
  std::string rate;   // unit of the rate; "bytes" are written as KiB, MiB or GiB
};

struct Progress {
  double fraction = 0.0;  // 0 to 1
  int64_t num_done = 0;
  int64_t num_items = 0;  // 0 = not shown
  double counted = 0.0;   // since the start, in the unit of the rate
};

// The progress of requests of at most `max_tokens` tokens in total. Outputs may end earlier, so the fraction
// is that of the requests or of the tokens, the larger one.
Progress generation_progress(int64_t num_finished, int64_t num_requests, int64_t num_tokens,
                             int64_t max_tokens);

// A bar with counts, rate and time left, for work that takes more than a second. Not thread-safe.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label, ProgressUnits units = {},
                       ProgressOutput output = ProgressOutput::on_stderr());
  void update(double fraction) { update(Progress{.fraction = fraction}); }
  void update(const Progress& progress);

 private:
  std::string label_;
  ProgressUnits units_;
  RateMeter rate_;
  ProgressLine line_;
};

// Runs `work` on another thread, and `report` on this one every 100 ms until it ends.
template <typename Work>
auto run_with_reports(Work&& work, const std::function<void()>& report) {
  auto result = std::async(std::launch::async, std::forward<Work>(work));
  while (result.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) report();
  return result.get();
}

// The progress of a download: bytes, rate and time left, after half a second. Not thread-safe.
class DownloadProgress {
 public:
  explicit DownloadProgress(std::string label, ProgressOutput output = ProgressOutput::on_stderr());

  // bytes of `total` have arrived; total 0 = not known yet. waiting: another process downloads the file.
  void update(uint64_t bytes, uint64_t total, const std::string& file, bool waiting);

 private:
  std::string label_;
  RateMeter rate_;
  ProgressLine line_;
};

// The text of a ProgressBar after `elapsed` seconds, shorter than `columns` characters: the bar shrinks, then
// it is left out, then the counts and the rate.
std::string progress_text(const std::string& label, const ProgressUnits& units, const Progress& progress,
                          double rate, double elapsed, int columns);

// The text of a DownloadProgress line.
std::string download_text(const std::string& label, const std::string& file, uint64_t bytes, uint64_t total,
                          double rate, bool waiting);

}  // namespace quire::cli
