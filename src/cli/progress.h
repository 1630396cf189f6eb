// Progress on stderr.
#pragma once

#include <cstdint>
#include <string>

namespace quire::cli {

// A bar that appears after one second, and only if stderr is a terminal. Not thread-safe.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();            // clears the line
  void update(double done);  // 0 to 1

 private:
  std::string label_;
  bool terminal_;
  bool shown_ = false;
  double begin_;
  double last_ = 0.0;
};

// The progress of a download: bytes, rate and time left in one line on stderr, if stderr is a terminal. It
// appears after half a second. Not thread-safe.
class DownloadProgress {
 public:
  explicit DownloadProgress(std::string label);
  ~DownloadProgress();  // clears the line
  DownloadProgress(const DownloadProgress&) = delete;
  DownloadProgress& operator=(const DownloadProgress&) = delete;

  // bytes of `total` have arrived; total 0 = not known yet. waiting: another process downloads the file.
  void update(uint64_t bytes, uint64_t total, const std::string& file, bool waiting);

 private:
  std::string label_;
  bool terminal_;
  bool shown_ = false;
  double begin_;
  double last_;
  uint64_t last_bytes_ = 0;
  double rate_ = 0.0;  // bytes per second, smoothed
};

// The text of a DownloadProgress line.
std::string download_text(const std::string& label, const std::string& file, uint64_t bytes, uint64_t total,
                          double rate, bool waiting);

}  // namespace quire::cli
