// Local time for templates. The caller provides the current time, so that a rendering depends only on its
// inputs.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace quire {

// A broken-down local time without a zone (Python's naive datetime).
struct LocalTime {
  int year = 1970;
  int month = 1;  // 1..12
  int day = 1;    // 1..31
  int hour = 0;
  int minute = 0;
  int second = 0;
  int microsecond = 0;
};

// The clock of this machine in its time zone.
LocalTime local_time_now();

// "2026-01-15T12:00:00"; also with a space instead of the T, without the time, or with fractional seconds.
Result<LocalTime> parse_now(std::string_view text);

// datetime.strftime in the C locale. Fails if a directive has a width of more than two digits.
Result<std::string> format_time(const LocalTime& time, std::string_view format);

}  // namespace quire
