// Log messages: one line each on stderr, with level and time. May be called from any thread.
//
// Logging never blocks: a line that stderr does not accept at once (its reader is stalled) is dropped and
// counted, and the next line that gets through is preceded by one that reports the number. Logging never
// throws. Control characters and invalid UTF-8 in a message are escaped, so that text from a request can
// neither forge a line nor send commands to a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/strings.h"

namespace quire {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

void set_log_level(LogLevel level);
LogLevel log_level();
// "debug", "info", "warning", "error" or "off"; returns false for any other name.
bool set_log_level(std::string_view name);

// Writes one line; the escaped text replaces everything that is not printable.
void log_line(LogLevel level, std::string_view message) noexcept;
// Writes each line of a text that has several, such as a table.
void log_lines(LogLevel level, std::string_view text) noexcept;

// Shows a line on stderr, which has to be a terminal, and replaces the last one. Log lines remove it first.
// An empty text removes it.
void show_transient_line(std::string_view text) noexcept;

// Lines dropped since the start of the process.
int64_t num_dropped_log_lines();

// The text with each control character, line separator and byte that is not UTF-8 as an escape sequence:
// "\n", "\t", "\x1b", "\u2028". Backslashes stay as they are.
std::string escape_log_text(std::string_view text);

// Counts a line that could not even be composed.
void drop_log_line() noexcept;

// Composes and writes a line. Never throws: without memory the line is dropped, because many callers handle
// an error already.
template <typename... Parts>
void log_parts(LogLevel level, const Parts&... parts) noexcept {
  if (log_level() > level) return;
  try {
    log_line(level, cat(parts...));
  } catch (...) {
    drop_log_line();
  }
}
template <typename... Parts>
void log_debug(const Parts&... parts) noexcept {
  log_parts(LogLevel::kDebug, parts...);
}
template <typename... Parts>
void log_info(const Parts&... parts) noexcept {
  log_parts(LogLevel::kInfo, parts...);
}
template <typename... Parts>
void log_warning(const Parts&... parts) noexcept {
  log_parts(LogLevel::kWarning, parts...);
}
template <typename... Parts>
void log_error(const Parts&... parts) noexcept {
  log_parts(LogLevel::kError, parts...);
}

}  // namespace quire
