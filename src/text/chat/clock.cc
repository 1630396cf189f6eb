#include "text/chat/clock.h"

#include <array>
#include <charconv>
#include <chrono>
#include <ctime>

namespace quire {
namespace {

bool leap(int year) {
  return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

int days_in_month(int year, int month) {
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && leap(year) ? 29 : kDays[month - 1];
}

std::tm to_tm(const LocalTime& time) {
  std::tm out{};
  out.tm_year = time.year - 1900;
  out.tm_mon = time.month - 1;
  out.tm_mday = time.day;
  out.tm_hour = time.hour;
  out.tm_min = time.minute;
  out.tm_sec = time.second;
  out.tm_isdst = -1;
  out.tm_yday = time.day - 1;
  for (int month = 1; month < time.month; ++month) out.tm_yday += days_in_month(time.year, month);
  // Days since 0001-01-01, a Monday, in the proleptic Gregorian calendar, as in Python.
  const int before = time.year - 1;
  const long days = 365L * before + before / 4 - before / 100 + before / 400 + out.tm_yday;
  out.tm_wday = static_cast<int>((days + 1) % 7);
  return out;
}

// Reads exactly `width` digits of `text` and removes them.
bool take_number(std::string_view& text, size_t width, int& out) {
  if (text.size() < width) return false;
  const auto result = std::from_chars(text.data(), text.data() + width, out);
  if (result.ec != std::errc() || result.ptr != text.data() + width || text[0] == '-') return false;
  text.remove_prefix(width);
  return true;
}

bool take_char(std::string_view& text, char c) {
  if (text.empty() || text[0] != c) return false;
  text.remove_prefix(1);
  return true;
}

bool take_fraction(std::string_view& text, int& microsecond) {
  int digits = 0;
  for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1), ++digits) {
    if (digits < 6) microsecond = microsecond * 10 + (text[0] - '0');
  }
  for (int i = digits; i < 6; ++i) microsecond *= 10;
  return digits > 0;
}

}  // namespace

LocalTime local_time_now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() % 1000000;
  return {parts.tm_year + 1900,    parts.tm_mon + 1, parts.tm_mday,
          parts.tm_hour,           parts.tm_min,     parts.tm_sec > 59 ? 59 : parts.tm_sec,
          static_cast<int>(micros)};
}

Result<LocalTime> parse_now(std::string_view text) {
  LocalTime time;
  std::string_view rest = text;
  bool good = take_number(rest, 4, time.year) && take_char(rest, '-') && take_number(rest, 2, time.month) &&
              take_char(rest, '-') && take_number(rest, 2, time.day);
  if (good && !rest.empty()) {
    good = (take_char(rest, 'T') || take_char(rest, ' ')) && take_number(rest, 2, time.hour) &&
           take_char(rest, ':') && take_number(rest, 2, time.minute);
    if (good && take_char(rest, ':')) good = take_number(rest, 2, time.second);
    if (good && take_char(rest, '.')) good = take_fraction(rest, time.microsecond);
  }
  good = good && rest.empty() && time.year >= 1 && time.month >= 1 && time.month <= 12 && time.day >= 1 &&
         time.day <= days_in_month(time.year, time.month) && time.hour < 24 && time.minute < 60 &&
         time.second < 60;
  if (!good)
    return invalid_argument("'" + std::string(text) +
                            "' is not a valid time; use the format 2026-01-15T12:00:00");
  return time;
}

Result<std::string> format_time(const LocalTime& time, std::string_view format) {
  const std::tm parts = to_tm(time);
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      out += format[i];
      continue;
    }
    // A directive: flags, a width, a modifier, a letter.
    size_t end = i + 1;
    while (end < format.size() && std::string_view("_-0^#+").find(format[end]) != std::string_view::npos)
      ++end;
    const size_t width = end;
    while (end < format.size() && format[end] >= '0' && format[end] <= '9') ++end;
    if (end - width > 2) return invalid_argument("strftime_now: the width of a directive is too large");
    if (end < format.size() && (format[end] == 'E' || format[end] == 'O')) ++end;
    if (end >= format.size()) {
      out += format.substr(i);
      break;
    }
    const char letter = format[end];
    if (letter == 'f' && end == i + 1) {
      const std::string digits = std::to_string(time.microsecond);
      out += std::string(6 - digits.size(), '0') + digits;
    } else if (letter == 's') {
      std::tm copy = parts;
      out += std::to_string(std::mktime(&copy));
    } else if (letter != 'z' && letter != 'Z') {  // %z and %Z are empty, because the time has no zone
      std::array<char, 256> buffer;
      const std::string directive(format.substr(i, end + 1 - i));
      out.append(buffer.data(), std::strftime(buffer.data(), buffer.size(), directive.c_str(), &parts));
    }
    i = end;
  }
  return out;
}

}  // namespace quire
