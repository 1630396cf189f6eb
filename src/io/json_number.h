// Numbers of JSON texts that RapidJSON parses. Its own conversion reads outside its table of powers of ten
// for numbers with many digits and a large exponent, and rounds some numbers of twenty digits wrongly. The
// parsers of this project therefore set kParseNumbersAsStringsFlag, and their handlers call put_number().
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace quire {

constexpr std::string_view kJsonNumberTooBig = "number too big to be stored in a double";

// The double that is nearest to `text`, a number in the syntax of JSON, NaN, Infinity or -Infinity. False if
// it is larger than the largest double. Numbers too close to 0 become 0.
inline bool to_double(std::string_view text, double& value) {
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, value).ec == std::errc()) return true;
  // Too large or too small; the range of long double tells which.
  long double wide = 0;
  std::from_chars(text.data(), end, wide);
  value = std::signbit(wide) ? -0.0 : 0.0;
  return std::fabs(wide) < 1;
}

// Passes a number to a handler of RapidJSON's events: integers as Uint64, negative ones as Int64, and all
// other numbers, including integers that do not fit, as Double. False if the handler returns false or if the
// number is larger than the largest double.
template <class Handler>
bool put_number(std::string_view text, Handler& handler) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto whole = [end](const std::from_chars_result& r) { return r.ec == std::errc() && r.ptr == end; };
  uint64_t natural = 0;
  if (whole(std::from_chars(begin, end, natural))) return handler.Uint64(natural);
  int64_t integer = 0;
  if (whole(std::from_chars(begin, end, integer))) return handler.Int64(integer);
  double real = 0;
  return to_double(text, real) && handler.Double(real);
}

}  // namespace quire
