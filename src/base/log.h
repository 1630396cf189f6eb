// Messages for the person who runs the program: one line each on stderr, with level and time. Thread-safe.
#pragma once

#include <string_view>

#include "base/strings.h"

namespace quire {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

void set_log_level(LogLevel level);
LogLevel log_level();
// "debug", "info", "warning", "error", "off"; false where the name is none of them.
bool set_log_level(std::string_view name);

void log_line(LogLevel level, std::string_view message);

template <typename... Parts>
void log_debug(const Parts&... parts) {
  if (log_level() <= LogLevel::kDebug) log_line(LogLevel::kDebug, cat(parts...));
}
template <typename... Parts>
void log_info(const Parts&... parts) {
  if (log_level() <= LogLevel::kInfo) log_line(LogLevel::kInfo, cat(parts...));
}
template <typename... Parts>
void log_warning(const Parts&... parts) {
  if (log_level() <= LogLevel::kWarning) log_line(LogLevel::kWarning, cat(parts...));
}
template <typename... Parts>
void log_error(const Parts&... parts) {
  if (log_level() <= LogLevel::kError) log_line(LogLevel::kError, cat(parts...));
}

}  // namespace quire
