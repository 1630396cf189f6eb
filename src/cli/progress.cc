#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"

namespace quire::cli {
namespace {

constexpr int kWidth = 40;

}  // namespace

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)), terminal_(isatty(STDERR_FILENO) == 1), begin_(monotonic_seconds()) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::update(double done) {
  const double now = monotonic_seconds();
  if (!terminal_ || now - begin_ < 1.0 || now - last_ < 0.1) return;
  last_ = now;
  shown_ = true;
  const double part = std::clamp(done, 0.0, 1.0);
  const int filled = static_cast<int>(part * kWidth);
  const double left = part > 0.0 ? (now - begin_) * (1.0 - part) / part : 0.0;
  const std::string bar =
      std::string(static_cast<size_t>(filled), '#') + std::string(static_cast<size_t>(kWidth - filled), '.');
  std::fprintf(stderr, "\r%s [%s] %3.0f %%, %.0f s left\x1b[K", label_.c_str(), bar.c_str(), 100.0 * part,
               left);
  std::fflush(stderr);
}

DownloadProgress::DownloadProgress(std::string label)
    : label_(std::move(label)),
      terminal_(isatty(STDERR_FILENO) == 1),
      begin_(monotonic_seconds()),
      last_(begin_) {}

DownloadProgress::~DownloadProgress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void DownloadProgress::update(uint64_t bytes, uint64_t total, const std::string& file, bool waiting) {
  const double now = monotonic_seconds();
  const double elapsed = now - last_;
  if (!terminal_ || now - begin_ < 0.5 || elapsed < 0.2) return;
  // The first value may be what an earlier download has left, and a new file may start with less.
  if (shown_ && bytes >= last_bytes_) {
    const double rate = static_cast<double>(bytes - last_bytes_) / elapsed;
    const double weight = std::min(1.0, elapsed / 3.0);
    rate_ = rate_ == 0.0 ? rate : (1.0 - weight) * rate_ + weight * rate;
  }
  last_ = now;
  last_bytes_ = bytes;
  shown_ = true;
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20;
  std::string text = download_text(label_, file, bytes, total, rate_, waiting);
  if (known && text.size() >= size.ws_col) text.resize(size.ws_col - 1);
  std::fprintf(stderr, "\r%s\x1b[K", text.c_str());
  std::fflush(stderr);
}

std::string download_text(const std::string& label, const std::string& file, uint64_t bytes, uint64_t total,
                          double rate, bool waiting) {
  if (total == 0) return cat("Pulling ", label, ": reading ", escape_log_text(file));
  std::string text = cat("Pulling ", label, ": ", format_bytes(static_cast<int64_t>(bytes)), " of ",
                         format_bytes(static_cast<int64_t>(total)));
  if (waiting) return text + ", waiting for another process";
  if (rate <= 0.0) return text;
  text += cat(", ", format_bytes(static_cast<int64_t>(rate)), "/s");
  const double left = static_cast<double>(total - std::min(bytes, total)) / rate;
  if (left < 60.0) return text + cat(", ", fixed(left, 0), " s left");
  if (left < 3600.0) return text + cat(", ", fixed(left / 60.0, 0), " min left");
  return text + cat(", ", fixed(left / 3600.0, 1), " h left");
}

}  // namespace quire::cli
