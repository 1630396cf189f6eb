#include "text/chat/jinja/number_text.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "text/chat/jinja/unicode_text.h"

namespace quire::jinja {
namespace {

bool digit(char c) {
  return c >= '0' && c <= '9';
}

// Removes underscores between digits (`is_digit`); returns false if there are others.
template <typename IsDigit>
bool drop_underscores(std::string& text, IsDigit is_digit) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_' &&
        (i == 0 || i + 1 >= text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])))
      return false;
  }
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  return true;
}

// Converts digits of other scripts to ASCII.
std::string ascii_digits(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto c = decode_at(text, at);
    at += c.bytes;
    if (c.value >= 128 && is_decimal(c.value)) {
      // Decimal digits come in runs of ten that start at a multiple of 16, or 6 above one.
      char32_t zero = c.value;
      while (c.value - zero < 9 && is_decimal(zero - 1)) --zero;
      out += static_cast<char>('0' + (c.value - zero));
    } else {
      append_utf8(out, c.value);
    }
  }
  return out;
}

}  // namespace

std::optional<double> parse_float(std::string_view raw) {
  std::string text = ascii_digits(strip(raw, nullptr, true, true));
  if (!drop_underscores(text, digit)) return std::nullopt;
  const size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const std::string word = to_lower(std::string_view(text).substr(sign));
  const double minus = sign == 1 && text[0] == '-' ? -1.0 : 1.0;
  if (word == "inf" || word == "infinity") return minus * std::numeric_limits<double>::infinity();
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (word.empty() || (!digit(word[0]) && word[0] != '.')) return std::nullopt;
  double value = 0;
  const auto result = std::from_chars(word.data(), word.data() + word.size(), value);
  if (result.ptr != word.data() + word.size()) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range)
    value = std::strtod(word.c_str(), nullptr);
  else if (result.ec != std::errc())
    return std::nullopt;
  return minus * value;
}

Value parse_integer(Heap& heap, std::string_view raw, int64_t base) {
  std::string text = ascii_digits(strip(raw, nullptr, true, true));
  bool minus = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    minus = text[0] == '-';
    text.erase(0, 1);
  }
  if (base != 0 && (base < 2 || base > 36)) return {};
  const auto prefix = [&](char mark, int64_t of) {
    if ((base != of && base != 0) || text.size() < 3 || text[0] != '0' || (text[1] | 0x20) != mark)
      return false;
    text.erase(0, text[2] == '_' ? 3 : 2);
    base = of;
    return true;
  };
  if (!prefix('x', 16) && !prefix('o', 8) && !prefix('b', 2) && base == 0) {
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != std::string::npos) return {};
    base = 10;
  }
  const auto any_digit = [](char c) { return digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); };
  if (text.empty() || !drop_underscores(text, any_digit)) return {};
  uint64_t magnitude = 0;
  const auto result =
      std::from_chars(text.data(), text.data() + text.size(), magnitude, static_cast<int>(base));
  if (result.ptr != text.data() + text.size() || result.ec == std::errc::invalid_argument) return {};
  constexpr auto kEdge = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (result.ec == std::errc() && magnitude <= kEdge) {
    return Value::integer(minus ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude));
  }
  if (base != 10) fail(ErrorClass::kLimit, "an integer does not fit in 64 bits");
  constexpr size_t kMaxDigits = 4300;  // the limit of Python
  text.erase(0, text.find_first_not_of('0'));
  if (text.size() > kMaxDigits) return {};
  return Value::of(heap.create<BigInt>((minus ? "-" : "") + text));
}

}  // namespace quire::jinja
