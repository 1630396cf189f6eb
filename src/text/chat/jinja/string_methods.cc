// The methods of str.
#include <algorithm>
#include <utility>

#include "text/chat/jinja/filter_args.h"
#include "text/chat/jinja/methods.h"
#include "text/chat/jinja/printf_format.h"
#include "text/chat/jinja/text_layout.h"
#include "text/chat/jinja/unicode_text.h"

namespace quire::jinja {
namespace {

void no_arguments(Arguments& args, std::string_view name) {
  if (!args.positional.empty() || !args.keywords.empty())
    fail_type(std::string(name) + "() takes no arguments");
}

template <std::string (*kConvert)(std::string_view)>
Value convert(Interpreter& interpreter, const Value& self, Arguments& args) {
  no_arguments(args, "str method");
  interpreter.heap().step_bytes(self.str().size() * 8);
  interpreter.heap().require(self.str().size() * 3);
  return string_like(interpreter.heap(), self, kConvert(self.str()));
}

// Whether there is at least one character and all are of a class.
template <bool (*kClass)(char32_t)>
Value all_of_class(Interpreter& interpreter, const Value& self, Arguments& args) {
  no_arguments(args, "str method");
  interpreter.heap().step_bytes(self.str().size() * kClassCost);
  const auto points = to_code_points(self.str());
  return Value::boolean(!points.empty() && std::all_of(points.begin(), points.end(), kClass));
}

Value is_ascii(Interpreter&, const Value& self, Arguments& args) {
  no_arguments(args, "isascii");
  return Value::boolean(self.get<Str>().ascii());
}

Value is_printable_text(Interpreter& interpreter, const Value& self, Arguments& args) {
  no_arguments(args, "isprintable");
  interpreter.heap().step_bytes(self.str().size() * kClassCost);
  const auto points = to_code_points(self.str());
  return Value::boolean(std::all_of(points.begin(), points.end(), is_printable));
}

Value is_identifier(Interpreter& interpreter, const Value& self, Arguments& args) {
  no_arguments(args, "isidentifier");
  interpreter.heap().step_bytes(self.str().size() * kClassCost);
  const auto points = to_code_points(self.str());
  return Value::boolean(!points.empty() && is_identifier_start(points[0]) &&
                        std::all_of(points.begin(), points.end(), is_identifier_part));
}

template <bool kUpper>
Value is_case(Interpreter& interpreter, const Value& self, Arguments& args) {
  no_arguments(args, "str method");
  interpreter.heap().step_bytes(self.str().size() * kClassCost);
  bool found = false;
  for (const char32_t c : to_code_points(self.str())) {
    if (is_title(c) || (kUpper ? is_lower(c) : is_upper(c))) return Value::boolean(false);
    found = found || (kUpper ? is_upper(c) : is_lower(c));
  }
  return Value::boolean(found);
}

Value is_title_case(Interpreter& interpreter, const Value& self, Arguments& args) {
  no_arguments(args, "istitle");
  interpreter.heap().step_bytes(self.str().size() * kClassCost);
  bool found = false, inside = false;
  for (const char32_t c : to_code_points(self.str())) {
    const bool starts = is_upper(c) || is_title(c);
    if ((starts && inside) || (is_lower(c) && !inside)) return Value::boolean(false);
    inside = starts || is_lower(c);
    found = found || inside;
  }
  return Value::boolean(found);
}

template <bool kLeft, bool kRight>
Value strip_method(Interpreter& interpreter, const Value& self, Arguments& args) {
  static constexpr std::string_view kNames[] = {"chars"};
  Value a[1];
  bind_values("strip", args, kNames, 0, a);
  const std::string* chars = a[0].is_missing() || a[0].is_none() ? nullptr : &need_string(a[0], "strip arg");
  interpreter.heap().step_bytes(self.str().size());
  return string_like(interpreter.heap(), self,
                     std::string(strip_counted(interpreter.heap(), self.str(), chars, kLeft, kRight)));
}

// The part of `self` between the optional positions a[from] and a[from + 1], and its start in code points.
std::string_view window(Heap& heap, const Value& self, const Value* bounds, int64_t& start) {
  const auto given = [](const Value& v) { return !v.is_missing() && !v.is_none(); };
  if (!given(bounds[0]) && !given(bounds[1])) {
    start = 0;
    return self.str();
  }
  heap.step_bytes(self.str().size());
  const auto length = static_cast<int64_t>(self.get<Str>().length());
  const auto clamp = [&](const Value& v, int64_t fallback) {
    if (v.is_missing() || v.is_none()) return fallback;
    const int64_t i = to_index(v);
    return i < 0 ? std::max<int64_t>(i + length, 0) : std::min(i, length + 1);
  };
  start = clamp(bounds[0], 0);
  const int64_t end = std::min(clamp(bounds[1], length), length);
  if (start > end) {
    start = -1;
    return {};
  }
  const std::string_view text = self.str();
  const size_t from = byte_offset(text, static_cast<size_t>(start));
  return text.substr(from, byte_offset(text.substr(from), static_cast<size_t>(end - start)));
}

int64_t find_position(Interpreter& interpreter, const Value& self, Arguments& args, bool last) {
  static constexpr std::string_view kNames[] = {"sub", "start", "end"};
  Value a[3];
  bind_values("find", args, kNames, 1, a);
  const auto& needle = need_string(a[0], "sub");
  int64_t start = 0;
  const auto part = window(interpreter.heap(), self, a + 1, start);
  interpreter.heap().step_bytes(self.str().size() * 2);
  if (start < 0) return -1;
  const size_t at = last ? rfind_text(part, needle) : find_text(part, needle, 0);
  return at == std::string_view::npos ? -1 : start + static_cast<int64_t>(utf8_length(part.substr(0, at)));
}

template <bool kLast, bool kMust>
Value find_method_of_str(Interpreter& interpreter, const Value& self, Arguments& args) {
  const int64_t at = find_position(interpreter, self, args, kLast);
  if (kMust && at < 0) fail_value("substring not found");
  return Value::integer(at);
}

Value count_method(Interpreter& interpreter, const Value& self, Arguments& args) {
  static constexpr std::string_view kNames[] = {"sub", "start", "end"};
  Value a[3];
  bind_values("count", args, kNames, 1, a);
  const auto& needle = need_string(a[0], "sub");
  int64_t start = 0;
  const auto part = window(interpreter.heap(), self, a + 1, start);
  interpreter.heap().step_bytes(self.str().size());
  if (start < 0) return Value::integer(0);
  if (needle.empty()) return Value::integer(static_cast<int64_t>(utf8_length(part)) + 1);
  int64_t count = 0;
  for (size_t at = find_text(part, needle, 0); at != std::string_view::npos;
       at = find_text(part, needle, at + needle.size())) {
    ++count;
  }
  return Value::integer(count);
}

template <bool kStart>
Value affix_method(Interpreter& interpreter, const Value& self, Arguments& args) {
  static constexpr std::string_view kNames[] = {"prefix", "start", "end"};
  Value a[3];
  bind_values(kStart ? "startswith" : "endswith", args, kNames, 1, a);
  int64_t start = 0;
  const auto part = window(interpreter.heap(), self, a + 1, start);
  const auto matches = [&](const Value& affix) {
    interpreter.heap().step();
    if (!affix.is_string()) {
      if (affix.is_undefined()) fail_undefined(affix);
      fail_type(std::string(kStart ? "startswith" : "endswith") +
                " first arg must be str or a tuple of str, not " + std::string(type_name(affix)));
    }
    const auto& text = affix.str();
    if (start < 0 || text.size() > part.size()) return false;
    interpreter.heap().step_bytes(text.size());
    return (kStart ? part.substr(0, text.size()) : part.substr(part.size() - text.size())) == text;
  };
  if (!a[0].is(Kind::kTuple)) return Value::boolean(matches(a[0]));
  return Value::boolean(std::any_of(a[0].items().begin(), a[0].items().end(), matches));
}

Value split_on_space(Interpreter& interpreter, const Value& self, int64_t max_split, bool from_right) {
  Heap& heap = interpreter.heap();
  std::vector<Value> parts;
  std::string_view rest = strip(self.str(), nullptr, !from_right, from_right);
  const auto add = [&](std::string_view piece) {
    parts.push_back(string_like(heap, self, std::string(piece)));
  };
  const auto points_back = [&](size_t end) {  // start of the code point that ends at `end`
    size_t start = end - 1;
    while (start > 0 && end - start < 4 && (static_cast<unsigned char>(rest[start]) & 0xC0) == 0x80) --start;
    return start;
  };
  while (!rest.empty() && max_split != 0) {
    --max_split;
    if (!from_right) {
      size_t end = 0;
      while (end < rest.size() && !is_space(decode_at(rest, end).value)) end += decode_at(rest, end).bytes;
      add(rest.substr(0, end));
      rest = strip(rest.substr(end), nullptr, true, false);
    } else {
      size_t start = rest.size();
      while (start > 0 && !is_space(decode_at(rest, points_back(start)).value)) start = points_back(start);
      add(rest.substr(start));
      rest = strip(rest.substr(0, start), nullptr, false, true);
    }
  }
  if (const auto left = strip(rest, nullptr, from_right, !from_right); !rest.empty()) {
    // The rest after the last allowed split keeps its white space on the far side only.
    add(from_right ? strip(rest, nullptr, false, true) : rest);
    static_cast<void>(left);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return heap.list(std::move(parts));
}

template <bool kFromRight>
Value split_method(Interpreter& interpreter, const Value& self, Arguments& args) {
  static constexpr std::string_view kNames[] = {"sep", "maxsplit"};
  Value a[2];
  bind_values("split", args, kNames, 0, a);
  Heap& heap = interpreter.heap();
  int64_t max_split = integer_or(a[1], -1);
  heap.step_bytes(self.str().size());
  if (a[0].is_missing() || a[0].is_none()) return split_on_space(interpreter, self, max_split, kFromRight);
  const auto& separator = need_string(a[0], "the separator");
  if (separator.empty()) fail_value("empty separator");
  std::vector<Value> parts;
  std::string_view rest = self.str();
  const auto add = [&](std::string_view piece) {
    parts.push_back(string_like(heap, self, std::string(piece)));
  };
  if (!kFromRight) {
    for (size_t at; max_split != 0 && (at = find_text(rest, separator, 0)) != std::string_view::npos;
         --max_split) {
      add(rest.substr(0, at));
      rest.remove_prefix(at + separator.size());
    }
    add(rest);
  } else {
    for (; max_split != 0; --max_split) {
      const size_t at = rest.rfind(separator);
      if (at == std::string_view::npos) break;
      heap.step_bytes((rest.size() - at) * separator.size() / 16);
      add(rest.substr(at + separator.size()));
      rest = rest.substr(0, at);
    }
    add(rest);
    std::reverse(parts.begin(), parts.end());
  }
  return heap.list(std::move(parts));
}

Value splitlines_method(Interpreter& interpreter, const Value& self, Arguments& args) {
  static constexpr std::string_view kNames[] = {"keepends"};
  Value a[1];
  bind_values("splitlines", args, kNames, 0, a);
  std::vector<Value> lines;
  interpreter.heap().step_bytes(self.str().size());
  for (const auto line : split_lines(self.str(), truth_or(a[0], false))) {
    lines.push_back(string_like(interpreter.heap(), self, std::string(line)));
  }
  return interpreter.heap().list(std::move(lines));
}

template <bool kLast>
Value partition_method(Interpreter& interpreter, const Value& self, Arguments& args) {
  static constexpr std::string_view kNames[] = {"sep"};
  Value a[1];
  bind_values("partition", args, kNames, 1, a);
  Heap& heap = interpreter.heap();
  const auto& separator = need_string(a[0], "sep");
  if (separator.empty()) fail_value("empty separator");
  const std::string_view text = self.str();
  heap.step_bytes(text.size() * 2);
  const size_t at = kLast ? rfind_text(text, separator) : find_text(text, separator, 0);
  const Value empty = heap.string("");
  if (at == std::string_view::npos) {
    return heap.list(kLast ? std::vector<Value>{empty, empty, self} : std::vector<Value>{self, empty, empty},
                     Kind::kTuple);
  }
  return heap.list({heap.string(std::string(text.substr(0, at))), a[0],
                    heap.string(std::string(text.substr(at + separator.size())))},
                   Kind::kTuple);
}

Value replace_method(Interpreter& interpreter, const Value& self, Arguments& args) {
  static constexpr std::string_view kNames[] = {"old", "new", "count"};
  if (!args.keywords.empty()) fail_type("str.replace() takes no keyword arguments");
  Value a[3];
  bind_values("replace", args, kNames, 2, a);
  return string_like(interpreter.heap(), self,
                     replace_text(interpreter.heap(), self.str(), need_string(a[0], "replace() argument 1"),
                                  need_string(a[1], "replace() argument 2"), integer_or(a[2], -1)));
}

Value join_method(Interpreter& interpreter, const Value& self, Arguments& args) {
  static constexpr std::string_view kNames[] = {"iterable"};
  Value a[1];
  bind_values("join", args, kNames, 1, a);
  Heap& heap = interpreter.heap();
  std::string out;
  int64_t index = 0;
  Cursor cursor(heap, a[0]);
  Value item;
  while (cursor.next(item)) {
    if (!item.is_string()) {
      fail_type("sequence item " + std::to_string(index) + ": expected str instance, " +
                std::string(type_name(item)) + " found");
    }
    heap.require(out.size() + self.str().size() + item.str().size());
    heap.step_bytes(self.str().size() + item.str().size());
    if (index++ != 0) out += self.str();
    out += item.str();
  }
  return heap.string(std::move(out));
}

Value format_method(Interpreter& interpreter, const Value& self, Arguments& args) {
  return interpreter.heap().string(brace_format(interpreter.heap(), self.str(), args));
}

Value format_map_method(Interpreter& interpreter, const Value& self, Arguments& args) {
  if (args.positional.size() != 1 || !args.keywords.empty() || !args.positional[0].is(Kind::kDict)) {
    fail_type("format_map() takes exactly one mapping");
  }
  Arguments named;
  interpreter.heap().step(args.positional[0].get<Dict>().entries.size());
  for (const auto& [key, value] : args.positional[0].get<Dict>().entries) {
    if (key.is_string()) named.keywords.emplace_back(key, value);
  }
  return interpreter.heap().string(brace_format(interpreter.heap(), self.str(), named));
}

enum class Side { kLeft, kRight, kCenter };

template <Side kSide>
Value justify_method(Interpreter& interpreter, const Value& self, Arguments& args) {
  static constexpr std::string_view kNames[] = {"width", "fillchar"};
  Value a[2];
  bind_values("just", args, kNames, 1, a);
  char32_t fill = U' ';
  if (!a[1].is_missing()) {
    const auto points = to_code_points(need_string(a[1], "the fill character"));
    if (points.size() != 1) fail_type("The fill character must be exactly one character long");
    fill = points[0];
  }
  Heap& heap = interpreter.heap();
  const int64_t width = to_index(a[0]);
  if (kSide == Side::kCenter) return string_like(heap, self, center_text(heap, self.get<Str>(), width, fill));
  const int64_t missing = std::max<int64_t>(width - static_cast<int64_t>(self.get<Str>().length()), 0);
  std::string one;
  append_utf8(one, fill);
  if (missing > INT64_MAX / 8) heap.require(SIZE_MAX);
  checked_size(heap, missing * 4);
  std::string padding;
  for (int64_t i = 0; i < missing; ++i) padding += one;
  return string_like(heap, self, kSide == Side::kLeft ? self.str() + padding : padding + self.str());
}

Value zfill_method(Interpreter& interpreter, const Value& self, Arguments& args) {
  static constexpr std::string_view kNames[] = {"width"};
  Value a[1];
  bind_values("zfill", args, kNames, 1, a);
  const int64_t missing = to_index(a[0]) - static_cast<int64_t>(self.get<Str>().length());
  std::string text = self.str();
  if (missing > 0) {
    const size_t sign = !text.empty() && (text[0] == '+' || text[0] == '-') ? 1 : 0;
    text.insert(sign, checked_size(interpreter.heap(), missing), '0');
  }
  return string_like(interpreter.heap(), self, std::move(text));
}

Value expandtabs_method(Interpreter& interpreter, const Value& self, Arguments& args) {
  static constexpr std::string_view kNames[] = {"tabsize"};
  Value a[1];
  bind_values("expandtabs", args, kNames, 0, a);
  const int64_t size = integer_or(a[0], 8);
  std::string out;
  int64_t column = 0;
  interpreter.heap().step_bytes(self.str().size() * kClassCost);
  for (const char32_t c : to_code_points(self.str())) {
    if (c == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      checked_size(interpreter.heap(), spaces);
      interpreter.heap().require(out.size() + static_cast<size_t>(spaces));
      out.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
    } else {
      append_utf8(out, c);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return string_like(interpreter.heap(), self, std::move(out));
}

template <bool kPrefix>
Value remove_affix(Interpreter& interpreter, const Value& self, Arguments& args) {
  static constexpr std::string_view kNames[] = {"affix"};
  Value a[1];
  bind_values(kPrefix ? "removeprefix" : "removesuffix", args, kNames, 1, a);
  std::string_view text = self.str();
  const auto& affix = need_string(a[0], "the argument");
  if (affix.size() <= text.size()) interpreter.heap().step_bytes(affix.size());
  if (affix.size() <= text.size() && !affix.empty()) {
    if (kPrefix && text.substr(0, affix.size()) == affix) text.remove_prefix(affix.size());
    if (!kPrefix && text.substr(text.size() - affix.size()) == affix) text.remove_suffix(affix.size());
  }
  return string_like(interpreter.heap(), self, std::string(text));
}

constexpr MethodDefinition kMethods[] = {
    // Sorted, for binary search.
    {"capitalize", convert<capitalize>},
    {"casefold", convert<case_fold>},
    {"center", justify_method<Side::kCenter>},
    {"count", count_method},
    {"endswith", affix_method<false>},
    {"expandtabs", expandtabs_method},
    {"find", find_method_of_str<false, false>},
    {"format", format_method},
    {"format_map", format_map_method},
    {"index", find_method_of_str<false, true>},
    {"isalnum", all_of_class<is_alnum>},
    {"isalpha", all_of_class<is_alpha>},
    {"isascii", is_ascii},
    {"isdecimal", all_of_class<is_decimal>},
    {"isdigit", all_of_class<is_digit>},
    {"isidentifier", is_identifier},
    {"islower", is_case<false>},
    {"isnumeric", all_of_class<is_numeric>},
    {"isprintable", is_printable_text},
    {"isspace", all_of_class<is_space>},
    {"istitle", is_title_case},
    {"isupper", is_case<true>},
    {"join", join_method},
    {"ljust", justify_method<Side::kLeft>},
    {"lower", convert<to_lower>},
    {"lstrip", strip_method<true, false>},
    {"partition", partition_method<false>},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"replace", replace_method},
    {"rfind", find_method_of_str<true, false>},
    {"rindex", find_method_of_str<true, true>},
    {"rjust", justify_method<Side::kRight>},
    {"rpartition", partition_method<true>},
    {"rsplit", split_method<true>},
    {"rstrip", strip_method<false, true>},
    {"split", split_method<false>},
    {"splitlines", splitlines_method},
    {"startswith", affix_method<true>},
    {"strip", strip_method<true, true>},
    {"swapcase", convert<swap_case>},
    {"title", convert<to_title>},
    {"upper", convert<to_upper>},
    {"zfill", zfill_method},
};

}  // namespace

std::span<const MethodDefinition> string_methods() {
  return kMethods;
}

}  // namespace quire::jinja
