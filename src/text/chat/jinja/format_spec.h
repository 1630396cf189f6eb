// Python's format specification: [[fill]align][sign][#][0][width][grouping][.precision][type].
#pragma once

#include <string>
#include <string_view>

#include "text/chat/jinja/ops.h"

namespace quire::jinja {

inline constexpr int64_t kMaxWidth = 1 << 20;      // maximum width in characters
inline constexpr int64_t kMaxPrecision = 1 << 10;  // maximum number of digits of a precision

struct FormatSpec {
  char32_t fill = U' ';
  char align = '\0';  // < > ^ =, or 0 for the default of the type
  char sign = '-';
  bool alternate = false;
  int64_t width = 0;
  char grouping = '\0';  // , or _, or 0 for none
  int64_t precision = -1;
  int64_t min_digits = -1;  // minimum number of digits of an integer, from the precision of %d
  char type = '\0';
};

FormatSpec parse_format_spec(std::string_view text, bool of_string);
std::string format_string(Heap& heap, std::string_view text, const FormatSpec& spec);
std::string format_number(Heap& heap, const Value& value, const FormatSpec& spec);
// ascii(value): repr with escapes for non-ASCII characters.
std::string ascii_of(Heap& heap, const Value& value);

}  // namespace quire::jinja
