#include "base/log.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <ctime>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/log_hold.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"debug", "info", "warning", "error", "off"};
constexpr std::string_view kRemoveLine = "\r\x1b[K";
constexpr std::array<std::string_view, 5> kLabels = {"DEBUG", "INFO", "WARNING", "ERROR", ""};

// State of the process's stderr, which all threads share: the one place where quire has process-wide state.
struct LogState {
  std::atomic<LogLevel> level{LogLevel::kInfo};
  std::atomic<int64_t> num_dropped{0};
  std::mutex mutex;             // guards what follows, and the order of lines
  int64_t num_reported = 0;     // dropped lines that a line has reported
  bool inside_line = false;     // the last line was only written in part
  bool transient_line = false;  // there is a line that the next one replaces
  int num_holds = 0;
  std::vector<std::string> held;  // lines that wait
};

LogState& state() {
  static LogState state;
  return state;
}

// At most `size` bytes of the text, without a part of a character at the end.
std::string_view whole_characters(std::string_view text, size_t size) {
  if (size >= text.size()) return text;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0U) == 0x80U) --size;
  return text.substr(0, size);
}

// Writes the text to stderr as far as that is possible without waiting; returns the number of bytes. A pipe
// that poll() reports as writable takes PIPE_BUF bytes at once, and quire writes under one lock, so the
// write cannot block. Other processes that share the pipe could take the space in between; quire starts none.
size_t write_without_waiting(std::string_view text) {
  size_t written = 0;
  while (written < text.size()) {
    pollfd ready{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&ready, 1, 0) != 1 || (ready.revents & (POLLOUT | POLLERR)) != POLLOUT) return written;
    const std::string_view part = whole_characters(text.substr(written), PIPE_BUF);
    const ssize_t count = ::write(STDERR_FILENO, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return written;
    written += static_cast<size_t>(count);
  }
  return written;
}

std::string format_line(LogLevel level, std::string_view message) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> stamp;
  const size_t n = std::strftime(stamp.data(), stamp.size(), "%m-%d %H:%M:%S", &local);
  return cat(kLabels[static_cast<size_t>(level)], " ", std::string_view(stamp.data(), n), " ",
             escape_log_text(message), "\n");
}

// Writes the line, or drops it. Under the lock.
bool write_line(LogState& log, std::string_view line) {
  if (log.inside_line) {
    if (write_without_waiting("\n") != 1) return false;
    log.inside_line = false;
  }
  if (log.transient_line) {
    if (write_without_waiting(kRemoveLine) != kRemoveLine.size()) return false;
    log.transient_line = false;
  }
  const size_t written = write_without_waiting(line);
  log.inside_line = written > 0 && written < line.size();
  return written == line.size();
}

// Writes the lines that wait. Under the lock.
void write_held(LogState& log) noexcept {
  for (const std::string& line : log.held) {
    if (!write_line(log, line)) log.num_dropped.fetch_add(1, std::memory_order_relaxed);
  }
  log.held.clear();
}

// The length of the well-formed UTF-8 character at the front of the text; 0 = there is none.
size_t character_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  return length <= text.size() && is_valid_utf8(text.substr(0, length)) ? length : 0;
}

void append_hex(std::string& out, unsigned value, int digits) {
  constexpr std::string_view kHex = "0123456789abcdef";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[(value >> shift) & 15U];
}

void append_control(std::string& out, unsigned char c) {
  constexpr std::string_view kShort = "\n\r\t";
  constexpr std::string_view kLetters = "nrt";
  out += '\\';
  if (const size_t at = kShort.find(static_cast<char>(c)); at != std::string_view::npos) {
    out += kLetters[at];
    return;
  }
  out += 'x';
  append_hex(out, c, 2);
}

}  // namespace

void set_log_level(LogLevel level) {
  state().level.store(level, std::memory_order_relaxed);
}

LogLevel log_level() {
  return state().level.load(std::memory_order_relaxed);
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

int64_t num_dropped_log_lines() {
  return state().num_dropped.load(std::memory_order_relaxed);
}

std::string escape_log_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    const size_t length = character_length(text);
    if (length == 0 || first < 0x20 || first == 0x7f) {
      append_control(out, first);
      text.remove_prefix(1);
      continue;
    }
    const std::string_view character = text.substr(0, length);
    const bool c1_control = length == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    if (c1_control) {
      out += "\\u";
      append_hex(out, static_cast<unsigned char>(text[1]), 4);
    } else if (character == "\u2028" || character == "\u2029") {
      out += character == "\u2028" ? "\\u2028" : "\\u2029";
    } else {
      out += character;
    }
    text.remove_prefix(length);
  }
  return out;
}

void log_line(LogLevel level, std::string_view message) noexcept {
  LogState& log = state();
  try {
    std::string line = format_line(level, message);
    const std::lock_guard lock(log.mutex);
    if (log.num_holds > 0) {
      if (log.held.size() >= kMaxHeldLogLines) return drop_log_line();
      log.held.push_back(std::move(line));
      return;
    }
    const int64_t unreported = log.num_dropped.load(std::memory_order_relaxed) - log.num_reported;
    if (unreported > 0) {
      const std::string report = format_line(
          LogLevel::kWarning,
          cat(unreported, " log lines were dropped because stderr was not read or memory ran out"));
      if (write_line(log, report)) log.num_reported += unreported;
    }
    if (write_line(log, line)) return;
  } catch (...) {  // out of memory: counted as well
  }
  drop_log_line();
}

void drop_log_line() noexcept {
  state().num_dropped.fetch_add(1, std::memory_order_relaxed);
}

LogHold::LogHold() noexcept {
  const std::lock_guard lock(state().mutex);
  ++state().num_holds;
}

LogHold::~LogHold() {
  const std::lock_guard lock(state().mutex);
  if (--state().num_holds == 0) write_held(state());
}

void LogHold::release() noexcept {
  const std::lock_guard lock(state().mutex);
  write_held(state());
}

void show_transient_line(std::string_view text) noexcept {
  LogState& log = state();
  try {
    const std::string line = cat("\r", text, "\x1b[K");
    const std::lock_guard lock(log.mutex);
    if (text.empty() && !log.transient_line) return;
    // A part of a line is overwritten by the next one.
    write_without_waiting(line);
    log.transient_line = !text.empty();
  } catch (...) {  // out of memory: no progress is shown
  }
}

void log_lines(LogLevel level, std::string_view text) noexcept {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    log_line(level, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace quire
