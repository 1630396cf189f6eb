#include "base/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <ctime>

namespace quire {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"debug", "info", "warning", "error", "off"};
constexpr std::array<std::string_view, 5> kLabels = {"DEBUG", "INFO", "WARNING", "ERROR", ""};

// The one setting that the whole process shares: it is about the process's stderr.
std::atomic<LogLevel>& level_setting() {
  static std::atomic<LogLevel> level{LogLevel::kInfo};
  return level;
}

}  // namespace

void set_log_level(LogLevel level) {
  level_setting().store(level, std::memory_order_relaxed);
}

LogLevel log_level() {
  return level_setting().load(std::memory_order_relaxed);
}

bool set_log_level(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) {
      set_log_level(static_cast<LogLevel>(i));
      return true;
    }
  }
  return false;
}

void log_line(LogLevel level, std::string_view message) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> stamp;
  const size_t n = std::strftime(stamp.data(), stamp.size(), "%m-%d %H:%M:%S", &local);
  // One write, so that lines of different threads do not mix.
  const std::string line =
      cat(kLabels[static_cast<size_t>(level)], " ", std::string_view(stamp.data(), n), " ", message, "\n");
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace quire
