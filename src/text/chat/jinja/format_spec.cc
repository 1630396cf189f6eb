#include "text/chat/jinja/format_spec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "text/chat/jinja/unicode_text.h"

namespace quire::jinja {
namespace {

bool is_align(char32_t c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

std::string pad(Heap& heap, std::string_view text, const FormatSpec& spec, char align, size_t sign_bytes) {
  const size_t length = utf8_length(text);
  const size_t width = static_cast<size_t>(spec.width);
  if (spec.width <= 0 || length >= width) return std::string(text);
  if (spec.width > kMaxWidth) fail_value("Too many decimal digits in format string");
  const size_t missing = width - length;
  heap.require(missing * 4 + text.size());
  heap.step_bytes(missing);
  const size_t left = align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0;
  std::string out;
  if (align == '=') out += text.substr(0, sign_bytes);
  for (size_t i = 0; i < left; ++i) append_utf8(out, spec.fill);
  out += align == '=' ? text.substr(sign_bytes) : text;
  for (size_t i = left; i < missing; ++i) append_utf8(out, spec.fill);
  return out;
}

std::string group_digits(std::string_view digits, char separator, size_t size) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out;
}

// Zeros that fill the width are grouped like other digits.
std::string grouped(Heap& heap, const FormatSpec& spec, std::string digits, size_t others, size_t size) {
  if (spec.grouping == '\0') return digits;
  heap.step_bytes(digits.size() + static_cast<size_t>(std::max<int64_t>(spec.width, 0)));
  std::string out = group_digits(digits, spec.grouping, size);
  if (spec.fill != U'0' || spec.align != '=' || spec.width > kMaxWidth) return out;
  const size_t wanted =
      spec.width > static_cast<int64_t>(others) ? static_cast<size_t>(spec.width) - others : 0;
  // The smallest number of digits that fills the width together with their separators.
  size_t count = wanted / (size + 1) * size;
  while (count + (count == 0 ? 0 : (count - 1) / size) < wanted) ++count;
  if (count <= digits.size()) return out;
  digits.insert(0, count - digits.size(), '0');
  return group_digits(digits, spec.grouping, size);
}

std::string sign_of(bool minus, char sign) {
  return minus ? "-" : sign == '+' ? "+" : sign == ' ' ? " " : "";
}

std::string integer_digits(const Value& value, char type, bool& minus) {
  if (value.is(Kind::kBigInt)) {
    if (type != 'd') fail(ErrorClass::kLimit, "an integer does not fit in 64 bits");
    const auto& digits = value.get<BigInt>().digits;
    minus = digits[0] == '-';
    return digits.substr(minus ? 1 : 0);
  }
  const int64_t number = value.as_int();
  minus = number < 0;
  uint64_t rest = minus ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  const unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
  const std::string_view digits = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  do {
    out += digits[rest % base];
    rest /= base;
  } while (rest != 0);
  std::reverse(out.begin(), out.end());
  return out;
}

std::string format_integer(Heap& heap, const Value& value, const FormatSpec& spec) {
  const char type = spec.type == '\0' || spec.type == 'n' ? 'd' : spec.type;
  if (spec.precision >= 0) fail_value("Precision not allowed in integer format specifier");
  if (type == 'c') {
    if (value.as_int() < 0 || value.as_int() > 0x10FFFF) fail_value("%c arg not in range(0x110000)");
    std::string text;
    append_utf8(text, static_cast<char32_t>(value.as_int()));
    return pad(heap, text, spec, spec.align == '\0' ? '<' : spec.align, 0);
  }
  bool minus = false;
  std::string digits = integer_digits(value, type, minus);
  if (spec.min_digits > kMaxWidth) fail_value("precision too big");
  if (static_cast<int64_t>(digits.size()) < spec.min_digits) {
    digits.insert(0, static_cast<size_t>(spec.min_digits) - digits.size(), '0');
  }
  std::string head = sign_of(minus, spec.sign);
  if (spec.alternate && type != 'd') head += std::string("0") + type;
  const std::string text = head + grouped(heap, spec, digits, head.size(), type == 'd' ? 3 : 4);
  return pad(heap, text, spec, spec.align == '\0' ? '>' : spec.align, head.size());
}

std::string printf_double(char type, bool alternate, int precision, double value) {
  const char format[] = {
      '%', alternate ? '#' : '.', alternate ? '.' : '*', alternate ? '*' : type, alternate ? type : '\0',
      '\0'};
  std::vector<char> buffer(static_cast<size_t>(precision) + 400);
  // The format is built from a checked letter.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const int n = std::snprintf(buffer.data(), buffer.size(), format, precision, value);
#pragma GCC diagnostic pop
  return {buffer.data(), static_cast<size_t>(n)};
}

// The digits of a positive, finite number without sign.
std::string float_digits(double value, const FormatSpec& spec) {
  if (spec.precision > kMaxPrecision) fail_value("precision too big");
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  switch (spec.type) {
    case '\0': {
      if (spec.precision < 0) return repr_float(value);
      // Like g, but with at least one digit after the point, and scientific notation earlier.
      const int digits = precision == 0 ? 1 : precision;
      const std::string scientific = printf_double('e', false, digits - 1, value);
      const size_t e = scientific.find('e');
      const int exponent = std::atoi(scientific.c_str() + e + 1);
      if (exponent >= -4 && exponent < digits - 1) {
        const std::string text = printf_double('g', spec.alternate, digits, value);
        return text.find('.') == std::string::npos ? text + ".0" : text;
      }
      if (exponent < -4 || exponent >= digits) return printf_double('g', spec.alternate, digits, value);
      std::string mantissa = scientific.substr(0, e);
      if (mantissa.find('.') != std::string::npos && !spec.alternate) {
        mantissa.resize(mantissa.find_last_not_of('0') + 1);
        if (mantissa.back() == '.') mantissa.pop_back();
      }
      return mantissa + scientific.substr(e);
    }
    case '%':
      return printf_double('f', spec.alternate, precision, value * 100) + "%";
    case 'n':
      return printf_double('g', spec.alternate, precision, value);
    default:
      return printf_double(spec.type, spec.alternate, precision, value);
  }
}

std::string format_real(Heap& heap, double value, const FormatSpec& spec) {
  static constexpr std::string_view kTypes = "eEfFgGn%";
  if (spec.type != '\0' && kTypes.find(spec.type) == std::string_view::npos) {
    fail_value(std::string("Unknown format code '") + spec.type + "' for object of type 'float'");
  }
  const bool upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
  const std::string head = sign_of(std::signbit(value) && !std::isnan(value), spec.sign);
  std::string text;
  if (!std::isfinite(value)) {
    text = std::isnan(value) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf");
    if (spec.type == '%') text += '%';
  } else {
    text = float_digits(std::fabs(value), spec);
    const size_t whole = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::string tail = text.substr(whole);
    text = grouped(heap, spec, text.substr(0, whole), head.size() + tail.size(), 3) + tail;
  }
  return pad(heap, head + text, spec, spec.align == '\0' ? '>' : spec.align, head.size());
}

}  // namespace

FormatSpec parse_format_spec(std::string_view text, bool of_string) {
  FormatSpec spec;
  auto points = to_code_points(text);
  size_t at = 0;
  const auto peek = [&] { return at < points.size() ? points[at] : U'\0'; };
  bool filled = false;
  if (points.size() > 1 && is_align(points[1])) {
    spec.fill = points[0];
    spec.align = static_cast<char>(points[1]);
    filled = true;
    at = 2;
  } else if (is_align(peek())) {
    spec.align = static_cast<char>(points[at++]);
  }
  if (peek() == '+' || peek() == '-' || peek() == ' ') {
    spec.sign = static_cast<char>(points[at++]);
    if (of_string && spec.sign == '-') fail_value("Sign not allowed in string format specifier");
  }
  if (peek() == 'z') ++at;
  if (peek() == '#') {
    spec.alternate = true;
    ++at;
    if (of_string) fail_value("Alternate form (#) not allowed in string format specifier");
  }
  if (peek() == '0' && !filled) {
    spec.fill = U'0';
    if (spec.align == '\0' && !of_string) spec.align = '=';
    ++at;
  }
  const auto number = [&](int64_t max_value) {
    int64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at) {
      value = value * 10 + static_cast<int64_t>(peek() - '0');
      if (value > max_value) fail_value("Too many decimal digits in format string");
    }
    return value;
  };
  spec.width = number(kMaxWidth);
  if (peek() == ',' || peek() == '_') {
    spec.grouping = static_cast<char>(points[at++]);
    if (of_string) fail_value(std::string("Cannot specify '") + spec.grouping + "' with 's'.");
  }
  if (peek() == '.') {
    ++at;
    if (peek() < '0' || peek() > '9') fail_value("Format specifier missing precision");
    spec.precision = number(kMaxWidth);
  }
  if (at + 1 < points.size()) fail_value("Invalid format specifier");
  if (at < points.size()) {
    if (points[at] >= 128) fail_value("Invalid format specifier");
    spec.type = static_cast<char>(points[at]);
  }
  return spec;
}

std::string format_string(Heap& heap, std::string_view text, const FormatSpec& spec) {
  if (spec.precision >= 0) text = text.substr(0, byte_offset(text, static_cast<size_t>(spec.precision)));
  heap.require(text.size());
  return pad(heap, text, spec, spec.align == '\0' ? '<' : spec.align, 0);
}

std::string format_number(Heap& heap, const Value& value, const FormatSpec& spec) {
  static constexpr std::string_view kIntegers = "bcdoxXn";
  static constexpr std::string_view kReals = "eEfFgG%";
  if (value.is(Kind::kFloat)) return format_real(heap, value.as_float(), spec);
  if (spec.type != '\0' && kReals.find(spec.type) != std::string_view::npos) {
    if (value.is(Kind::kBigInt)) fail(ErrorClass::kLimit, "an integer does not fit in 64 bits");
    return format_real(heap, static_cast<double>(value.as_int()), spec);
  }
  if (spec.type != '\0' && kIntegers.find(spec.type) == std::string_view::npos) {
    fail_value(std::string("Unknown format code '") + spec.type + "' for object of type 'int'");
  }
  return format_integer(heap, value, spec);
}

std::string ascii_of(Heap& heap, const Value& value) {
  std::string out;
  const std::string repr = repr_of(heap, value);
  constexpr size_t kLongestEscape = 10;
  heap.require(repr.size() * kLongestEscape);
  heap.step_bytes(repr.size() * kLongestEscape);
  for (const char32_t c : to_code_points(repr)) {
    if (c < 128) {
      out += static_cast<char>(c);
      continue;
    }
    std::array<char, 12> buffer;
    const char mark = c < 0x100 ? 'x' : c < 0x10000 ? 'u' : 'U';
    const int width = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
    const int n =
        std::snprintf(buffer.data(), buffer.size(), "\\%c%0*x", mark, width, static_cast<unsigned>(c));
    out.append(buffer.data(), static_cast<size_t>(n));
  }
  return out;
}

}  // namespace quire::jinja
