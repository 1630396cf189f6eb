#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"

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

}  // namespace quire::cli
