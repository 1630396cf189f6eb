#include "text/chat/jinja/printf_format.h"

#include <algorithm>
#include <cmath>

#include "text/chat/jinja/format_spec.h"
#include "text/chat/jinja/unicode_text.h"

namespace quire::jinja {
namespace {

// --- the % operator ---

class PrintfFormatter {
 public:
  PrintfFormatter(Heap& heap, std::string_view format, const Value& values)
      : heap_(heap), format_(format), values_(values), tuple_(values.is(Kind::kTuple)) {}

  std::string run() {
    heap_.step_bytes(format_.size());
    for (size_t at = 0; at < format_.size();) {
      const size_t percent = format_.find('%', at);
      out_ += format_.substr(at, percent == std::string_view::npos ? percent : percent - at);
      if (percent == std::string_view::npos) break;
      at = directive(percent + 1);
      heap_.require(out_.size() + format_.size());
    }
    // Not all values of a mapping need be used. In Python, this applies to all subscriptable values except
    // tuples and strings.
    const bool lenient = values_.is(Kind::kDict) || values_.is(Kind::kList) || values_.is(Kind::kRange) ||
                         values_.is_undefined();
    if (tuple_ ? next_ < values_.items().size() : next_ == 0 && !lenient) {
      fail_type("not all arguments converted during string formatting");
    }
    return std::move(out_);
  }

 private:
  char peek(size_t at) const {
    if (at >= format_.size()) fail_value("incomplete format");
    return format_[at];
  }

  Value next_value() {
    if (tuple_) {
      if (next_ >= values_.items().size()) fail_type("not enough arguments for format string");
      return values_.items()[next_++];
    }
    if (next_++ > 0) fail_type("not enough arguments for format string");
    return values_;
  }

  // A width or precision: digits, or a star that takes it from the values.
  int64_t number(size_t& at) {
    if (peek(at) == '*') {
      ++at;
      const Value value = next_value();
      if (!value.is_integral()) fail_type("* wants int");
      return value.as_int();
    }
    int64_t result = 0;
    for (; peek(at) >= '0' && peek(at) <= '9'; ++at) {
      result = result * 10 + (peek(at) - '0');
      if (result > kMaxWidth) fail_value("width too big");
    }
    return result;
  }

  // Formats the directive after a percent sign; returns its end.
  size_t directive(size_t at) {
    Value value;
    if (peek(at) == '(') {
      const size_t close = closing(at);
      if (!values_.is(Kind::kDict)) fail_type("format requires a mapping");
      const std::string key(format_.substr(at + 1, close - at - 1));
      const Value* found = values_.get<Dict>().find(std::string_view(key));
      if (found == nullptr) fail_value("KeyError: " + key);
      value = *found;
      next_ = 1;
      at = close + 1;
    }
    FormatSpec spec;
    bool left = false, zero = false;
    for (;; ++at) {
      const char c = peek(at);
      if (c == '-') {
        left = true;
      } else if (c == '0') {
        zero = true;
      } else if (c == '+') {
        spec.sign = '+';
      } else if (c == ' ') {
        if (spec.sign != '+') spec.sign = ' ';
      } else if (c == '#') {
        spec.alternate = true;
      } else {
        break;
      }
    }
    spec.width = number(at);
    if (spec.width < 0) {
      left = true;
      spec.width = -spec.width;
    }
    if (peek(at) == '.') {
      ++at;
      spec.precision = std::max<int64_t>(number(at), 0);
    }
    while (peek(at) == 'h' || peek(at) == 'l' || peek(at) == 'L') ++at;
    const char type = peek(at);
    if (type == '%') {
      out_ += '%';
      return at + 1;
    }
    if (value.is_missing()) value = next_value();
    spec.align = left ? '<' : '>';
    convert(type, value, spec, zero && !left);
    return at + 1;
  }

  size_t closing(size_t open) const {
    int level = 0;
    for (size_t at = open; at < format_.size(); ++at) {
      level += format_[at] == '(' ? 1 : format_[at] == ')' ? -1 : 0;
      if (level == 0) return at;
    }
    fail_value("incomplete format key");
  }

  void convert(char type, const Value& value, FormatSpec& spec, bool zero) {
    switch (type) {
      case 's':
      case 'r':
      case 'a':
        spec.sign = '-';
        out_ += format_string(heap_,
                              type == 's'   ? str_of(heap_, value)
                              : type == 'r' ? repr_of(heap_, value)
                                            : ascii_of(heap_, value),
                              spec);
        return;
      case 'c':
        character(value, spec);
        return;
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        integer(type, value, spec, zero);
        return;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (value.is_undefined()) fail_undefined(value);
        if (!value.is_integral() && !value.is(Kind::kFloat)) {
          fail_type("must be real number, not " + std::string(type_name(value)));
        }
        spec.type = type;
        if (zero) pad_zeros(spec);
        out_ += format_number(
            heap_, value.is(Kind::kFloat) ? value : Value::real(static_cast<double>(value.as_int())), spec);
        return;
      default:
        fail_value(std::string("unsupported format character '") + type + "'");
    }
  }

  static void pad_zeros(FormatSpec& spec) {
    spec.fill = U'0';
    spec.align = '=';
  }

  void character(const Value& value, FormatSpec& spec) {
    std::string text;
    if (value.is_integral()) {
      if (value.as_int() < 0 || value.as_int() > 0x10FFFF) fail_value("%c arg not in range(0x110000)");
      append_utf8(text, static_cast<char32_t>(value.as_int()));
    } else if (value.is_string() && value.get<Str>().length() == 1) {
      text = value.str();
    } else {
      fail_type("%c requires int or char");
    }
    spec.precision = -1;
    out_ += format_string(heap_, text, spec);
  }

  void integer(char type, const Value& value, FormatSpec& spec, bool zero) {
    if (value.is_undefined()) fail_undefined(value);
    Value number = value;
    const bool decimal = type == 'd' || type == 'i' || type == 'u';
    if (value.is(Kind::kFloat) && decimal) {
      if (!(std::fabs(value.as_float()) < 9.2e18)) fail_value("cannot convert float to integer");
      number = Value::integer(static_cast<int64_t>(value.as_float()));
    } else if (!value.is_integral() && !value.is(Kind::kBigInt)) {
      fail_type(std::string("%") + type + " format: " + (decimal ? "a real number" : "an integer") +
                " is required, not " + std::string(type_name(value)));
    }
    spec.type = decimal ? 'd' : type;
    spec.min_digits = spec.precision;
    spec.precision = -1;
    if (zero) pad_zeros(spec);
    out_ += format_number(heap_, number, spec);
  }

  Heap& heap_;
  std::string_view format_;
  const Value& values_;
  bool tuple_;
  size_t next_ = 0;
  std::string out_;
};

// --- str.format ---

class BraceFormatter {
 public:
  BraceFormatter(Heap& heap, const Arguments& args) : heap_(heap), args_(args) {}

  std::string run(std::string_view format, int depth) {
    if (depth > 2) fail_value("Max string recursion exceeded");
    heap_.step_bytes(format.size());
    std::string out;
    for (size_t at = 0; at < format.size();) {
      const char c = format[at];
      if (c != '{' && c != '}') {
        const size_t end = std::min(format.find_first_of("{}", at), format.size());
        out += format.substr(at, end - at);
        at = end;
      } else if (at + 1 < format.size() && format[at + 1] == c) {
        out += c;
        at += 2;
      } else if (c == '}') {
        fail_value("Single '}' encountered in format string");
      } else {
        const size_t end = field_end(format, at);
        out += field(format.substr(at + 1, end - at - 1), depth);
        at = end + 1;
      }
      heap_.require(out.size() + format.size());
    }
    return out;
  }

 private:
  static size_t field_end(std::string_view format, size_t open) {
    int level = 0;
    for (size_t at = open; at < format.size(); ++at) {
      // Within [...] braces are part of the key.
      if (level == 1 && format[at] == '[') {
        const size_t close = format.find(']', at);
        if (close == std::string_view::npos) break;
        at = close;
        continue;
      }
      level += format[at] == '{' ? 1 : format[at] == '}' ? -1 : 0;
      if (level == 0) return at;
    }
    fail_value(open + 1 >= format.size() ? "Single '{' encountered in format string"
                                         : "expected '}' before end of string");
  }

  std::string field(std::string_view body, int depth) {
    size_t name_end = 0;
    while (name_end < body.size() && body[name_end] != '!' && body[name_end] != ':') {
      if (body[name_end] == '[') {
        const size_t close = body.find(']', name_end);
        if (close == std::string_view::npos) fail_value("Missing ']' in format string");
        name_end = close;
      }
      ++name_end;
    }
    Value value = lookup(body.substr(0, name_end));
    std::string_view rest = body.substr(name_end);
    if (!rest.empty() && rest[0] == '!') {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':'))
        fail_value("expected ':' after conversion specifier");
      value = converted(value, rest[1]);
      rest.remove_prefix(2);
    }
    const std::string spec = rest.empty() ? "" : run(rest.substr(1), depth + 1);
    return format_value(heap_, value, spec);
  }

  Value converted(const Value& value, char conversion) {
    switch (conversion) {
      case 's':
        return heap_.string(str_of(heap_, value));
      case 'r':
        return heap_.string(repr_of(heap_, value));
      case 'a':
        return heap_.string(ascii_of(heap_, value));
      default:
        fail_value(std::string("Unknown conversion specifier ") + conversion);
    }
  }

  static bool all_digits(std::string_view text) {
    return !text.empty() && text.size() < 10 &&
           text.find_first_not_of("0123456789") == std::string_view::npos;
  }

  Value lookup(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, first_end));
    std::string_view rest = name.substr(first_end);
    while (!rest.empty()) {
      if (rest[0] == '.') {
        const size_t end = std::min(rest.find_first_of(".[", 1), rest.size());
        value = get_attribute(heap_, value, heap_.string(std::string(rest.substr(1, end - 1))));
        rest.remove_prefix(end);
      } else if (rest[0] == '[') {
        const size_t close = rest.find(']');
        if (close == std::string_view::npos) fail_value("Missing ']' in format string");
        const std::string key(rest.substr(1, close - 1));
        value = get_item(heap_, value, all_digits(key) ? Value::integer(std::stoll(key)) : heap_.string(key));
        rest.remove_prefix(close + 1);
      } else {
        fail_value("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  Value first(std::string_view name) {
    if (name.empty() || all_digits(name)) {
      if (name.empty() == manual_ && numbered_) {
        fail_value("cannot switch between automatic field numbering and manual field specification");
      }
      numbered_ = true;
      manual_ = !name.empty();
      const size_t index = name.empty() ? next_++ : static_cast<size_t>(std::stoll(std::string(name)));
      if (index >= args_.positional.size()) {
        fail_value("Replacement index " + std::to_string(index) + " out of range for positional args tuple");
      }
      return args_.positional[index];
    }
    for (const auto& [key, value] : args_.keywords) {
      if (key.str() == name) return value;
    }
    fail_value("KeyError: '" + std::string(name) + "'");
  }

  Heap& heap_;
  const Arguments& args_;
  size_t next_ = 0;
  bool numbered_ = false, manual_ = false;
};

}  // namespace

std::string printf_format(Heap& heap, std::string_view format, const Value& values) {
  return PrintfFormatter(heap, format, values).run();
}

std::string brace_format(Heap& heap, std::string_view format, const Arguments& args) {
  return BraceFormatter(heap, args).run(format, 0);
}

std::string format_value(Heap& heap, const Value& value, std::string_view text) {
  if (text.empty()) return str_of(heap, value);
  const FormatSpec spec = parse_format_spec(text, value.is_string());
  if (value.is_string()) {
    if (spec.type != '\0' && spec.type != 's') {
      fail_value(std::string("Unknown format code '") + spec.type + "' for object of type 'str'");
    }
    if (spec.sign != '-') fail_value("Sign not allowed in string format specifier");
    if (spec.align == '=') fail_value("'=' alignment not allowed in string format specifier");
    return format_string(heap, value.str(), spec);
  }
  if (value.is_integral() || value.is(Kind::kFloat) || value.is(Kind::kBigInt)) {
    if (spec.type == 's')
      fail_value("Unknown format code 's' for object of type '" + std::string(type_name(value)) + "'");
    return format_number(heap, value, spec);
  }
  fail_type("unsupported format string passed to " + std::string(type_name(value)) + ".__format__");
}

}  // namespace quire::jinja
