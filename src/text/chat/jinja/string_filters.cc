#include <algorithm>
#include <array>

#include "text/chat/jinja/filter_args.h"
#include "text/chat/jinja/filters.h"
#include "text/chat/jinja/printf_format.h"
#include "text/chat/jinja/text_layout.h"
#include "text/chat/jinja/unicode_text.h"

namespace quire::jinja {
namespace {

// The argument of a filter that accepts only text.
Value only_text(Interpreter& interpreter, Arguments& args, std::string_view filter) {
  static constexpr std::string_view kNames[] = {"s"};
  Value a[1];
  bind_values(filter, args, kNames, 1, a);
  Value text = soft_string(interpreter, a[0]);
  interpreter.heap().step_bytes(text.str().size() * 8);
  return text;
}

Value filter_capitalize(Interpreter& interpreter, Arguments& args) {
  const Value s = only_text(interpreter, args, "capitalize");
  return string_like(interpreter.heap(), s, capitalize(s.str()));
}

Value filter_lower(Interpreter& interpreter, Arguments& args) {
  const Value s = only_text(interpreter, args, "lower");
  return string_like(interpreter.heap(), s, to_lower(s.str()));
}

Value filter_upper(Interpreter& interpreter, Arguments& args) {
  const Value s = only_text(interpreter, args, "upper");
  return string_like(interpreter.heap(), s, to_upper(s.str()));
}

Value filter_string(Interpreter& interpreter, Arguments& args) {
  return only_text(interpreter, args, "string");
}

// jinja2's title case: words start after white space, hyphens and opening brackets.
Value filter_title(Interpreter& interpreter, Arguments& args) {
  const Value s = only_text(interpreter, args, "title");
  const auto separates = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  const auto& text = s.str();
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto first = decode_at(text, at);
    size_t end = at + first.bytes;
    if (separates(first.value)) {
      out.append(text, at, first.bytes);
    } else {
      while (end < text.size() && !separates(decode_at(text, end).value)) end += decode_at(text, end).bytes;
      out += to_upper(std::string_view(text).substr(at, first.bytes));
      out += to_lower(std::string_view(text).substr(at + first.bytes, end - at - first.bytes));
    }
    at = end;
  }
  return interpreter.heap().string(std::move(out));
}

Value filter_center(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value", "width"};
  Value a[2];
  bind_values("center", args, kNames, 1, a);
  const Value s = soft_string(interpreter, a[0]);
  return string_like(interpreter.heap(), s,
                     center_text(interpreter.heap(), s.get<Str>(), integer_or(a[1], 80), ' '));
}

Value escaped(Interpreter& interpreter, const Value& value, bool force) {
  Heap& heap = interpreter.heap();
  Value s = soft_string(interpreter, value);
  if (!force && s.get<Str>().markup) return s;
  constexpr size_t kLongestEntity = 5;
  heap.require(s.str().size() * kLongestEntity);
  heap.step_bytes(s.str().size());
  Value result = heap.string(escape_html(s.str()));
  result.get<Str>().markup = true;
  return result;
}

Value filter_escape(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"s"};
  Value a[1];
  bind_values("escape", args, kNames, 1, a);
  return escaped(interpreter, a[0], false);
}

Value filter_forceescape(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value"};
  Value a[1];
  bind_values("forceescape", args, kNames, 1, a);
  return escaped(interpreter, a[0], true);
}

Value filter_safe(Interpreter& interpreter, Arguments& args) {
  const Value s = only_text(interpreter, args, "safe");
  Value result = interpreter.heap().string(s.str());
  result.get<Str>().markup = true;
  return result;
}

Value filter_format(Interpreter& interpreter, Arguments& args) {
  if (args.positional.empty()) fail_type("format() missing 1 required positional argument: 'value'");
  const Value s = soft_string(interpreter, args.positional[0]);
  std::vector<Value> rest(args.positional.begin() + 1, args.positional.end());
  if (!rest.empty() && !args.keywords.empty()) {
    fail_value("can't handle positional and keyword arguments at the same time");
  }
  Heap& heap = interpreter.heap();
  Value values;
  if (args.keywords.empty()) {
    values = heap.list(std::move(rest), Kind::kTuple);
  } else {
    values = heap.dict();
    for (auto& [name, value] : args.keywords) values.get<Dict>().set(name, value);
  }
  return heap.string(printf_format(heap, s.str(), values));
}

Value filter_indent(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"s", "width", "first", "blank"};
  Value a[4];
  bind_values("indent", args, kNames, 1, a);
  Heap& heap = interpreter.heap();
  heap.step_bytes(need_string(a[0], "the value to indent").size());
  const std::string text = a[0].str() + "\n";
  const bool blank = truth_or(a[3], false);
  std::string indent;
  if (a[1].is_string()) {
    indent = a[1].str();
  } else {
    indent.assign(checked_size(heap, integer_or(a[1], 4)), ' ');
  }
  std::string out = truth_or(a[2], false) ? indent : "";
  bool first = true;
  for (const auto line : split_lines(text, false)) {
    heap.step_bytes(line.size() + indent.size());
    heap.require(out.size() + line.size() + indent.size());
    if (!first) {
      out += '\n';
      if (blank || !line.empty()) out += indent;
    }
    first = false;
    out += line;
  }
  return string_like(heap, a[0], std::move(out));
}

Value filter_replace(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"s", "old", "new", "count"};
  Value a[4];
  bind_values("replace", args, kNames, 3, a);
  Heap& heap = interpreter.heap();
  const int64_t count = a[3].is_missing() || a[3].is_none() ? -1 : to_index(a[3]);
  return heap.string(replace_text(heap, str_of(heap, a[0]), str_of(heap, a[1]), str_of(heap, a[2]), count));
}

Value filter_striptags(Interpreter& interpreter, Arguments& args) {
  const Value s = only_text(interpreter, args, "striptags");
  return interpreter.heap().string(strip_tags(interpreter.heap(), s.str()));
}

Value filter_trim(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value", "chars"};
  Value a[2];
  bind_values("trim", args, kNames, 1, a);
  const Value s = soft_string(interpreter, a[0]);
  interpreter.heap().step_bytes(s.str().size());
  const std::string* chars = a[1].is_missing() || a[1].is_none() ? nullptr : &need_string(a[1], "chars");
  return string_like(interpreter.heap(), s,
                     std::string(strip_counted(interpreter.heap(), s.str(), chars, true, true)));
}

Value filter_truncate(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"s", "length", "killwords", "end", "leeway"};
  Value a[5];
  bind_values("truncate", args, kNames, 1, a);
  const int64_t length = integer_or(a[1], 255);
  const int64_t leeway = a[4].is_missing() || a[4].is_none() ? 5 : to_index(a[4]);
  const std::string end = a[3].is_missing() ? "..." : need_string(a[3], "end");
  interpreter.heap().step_bytes(end.size());
  const auto end_length = static_cast<int64_t>(utf8_length(end));
  if (length < end_length)
    fail_value("expected length >= " + std::to_string(end_length) + ", got " + std::to_string(length));
  if (leeway < 0) fail_value("expected leeway >= 0, got " + std::to_string(leeway));
  if (length_of(a[0]) - length <= leeway) return a[0];
  const auto& text = need_string(a[0], "the value to truncate");
  interpreter.heap().step_bytes(text.size());
  std::string cut = text.substr(0, byte_offset(text, static_cast<size_t>(length - end_length)));
  if (!truth_or(a[2], false)) {
    const size_t space = cut.rfind(' ');
    if (space != std::string::npos) cut.resize(space);
  }
  return interpreter.heap().string(cut + end);
}

Value filter_urlencode(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"value"};
  Value a[1];
  bind_values("urlencode", args, kNames, 1, a);
  Heap& heap = interpreter.heap();
  if (a[0].is_string() || !iterable(a[0])) return heap.string(quote_url(heap, str_of(heap, a[0]), false));
  std::string out;
  const auto add = [&](const Value& key, const Value& value) {
    if (!out.empty()) out += '&';
    out += quote_url(heap, str_of(heap, key), true) + "=" + quote_url(heap, str_of(heap, value), true);
    heap.require(out.size());
  };
  if (a[0].is(Kind::kDict)) {
    for (const auto& [key, value] : a[0].get<Dict>().entries) add(key, value);
    return heap.string(std::move(out));
  }
  Cursor cursor(heap, a[0]);
  Value item;
  while (cursor.next(item)) {
    const auto pair = collect(heap, item);
    if (pair.size() != 2) fail_value("expected pairs to encode");
    add(pair[0], pair[1]);
  }
  return heap.string(std::move(out));
}

Value filter_wordcount(Interpreter& interpreter, Arguments& args) {
  const Value s = only_text(interpreter, args, "wordcount");
  int64_t words = 0;
  bool inside = false;
  for (const char32_t c : to_code_points(s.str())) {
    const bool word = is_alnum(c) || c == '_';
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value::integer(words);
}

Value filter_wordwrap(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"s", "width", "break_long_words", "wrapstring",
                                                "break_on_hyphens"};
  Value a[5];
  bind_values("wordwrap", args, kNames, 1, a);
  WrapOptions options;
  options.width = integer_or(a[1], 79);
  options.break_long_words = truth_or(a[2], true);
  options.break_on_hyphens = truth_or(a[4], true);
  if (options.width <= 0) fail_value("invalid width " + std::to_string(options.width) + " (must be > 0)");
  const std::string separator = a[3].is_missing() || a[3].is_none() ? "\n" : need_string(a[3], "wrapstring");
  std::string out;
  bool first = true;
  const auto add_separator = [&] {
    interpreter.heap().require(out.size() + separator.size());
    interpreter.heap().step_bytes(separator.size());
    out += separator;
  };
  interpreter.heap().step_bytes(need_string(a[0], "the value to wrap").size());
  for (const auto line : split_lines(a[0].str(), false)) {
    if (!first) add_separator();
    first = false;
    bool first_part = true;
    for (const auto& part : wrap_line(interpreter.heap(), line, options)) {
      if (!first_part) add_separator();
      first_part = false;
      interpreter.heap().require(out.size() + part.size());
      out += part;
    }
  }
  return interpreter.heap().string(std::move(out));
}

Value filter_xmlattr(Interpreter& interpreter, Arguments& args) {
  static constexpr std::string_view kNames[] = {"d", "autospace"};
  Value a[2];
  bind_values("xmlattr", args, kNames, 1, a);
  Heap& heap = interpreter.heap();
  if (a[0].is_undefined()) fail_undefined(a[0]);
  if (!a[0].is(Kind::kDict)) fail_type("xmlattr needs a mapping, not " + std::string(type_name(a[0])));
  std::string out;
  for (const auto& [key, value] : a[0].get<Dict>().entries) {
    if (value.is_none() || value.is_undefined()) continue;
    const auto& name = need_string(key, "attribute name");
    if (name.find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      fail_value("Invalid character in attribute name: " + repr_of(heap, key));
    }
    if (!out.empty() || truth_or(a[1], true)) out += ' ';
    heap.step_bytes(name.size());
    out += escape_html(name) + "=\"" + escaped(interpreter, value, false).str() + "\"";
    heap.require(out.size());
  }
  return heap.string(std::move(out));
}

constexpr FilterDefinition kStringFilters[] = {
    {"capitalize", filter_capitalize},
    {"center", filter_center},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"forceescape", filter_forceescape},
    {"format", filter_format},
    {"indent", filter_indent},
    {"lower", filter_lower},
    {"replace", filter_replace},
    {"safe", filter_safe},
    {"string", filter_string},
    {"striptags", filter_striptags},
    {"title", filter_title},
    {"trim", filter_trim},
    {"truncate", filter_truncate},
    {"upper", filter_upper},
    {"urlencode", filter_urlencode},
    {"wordcount", filter_wordcount},
    {"wordwrap", filter_wordwrap},
    {"xmlattr", filter_xmlattr},
};

}  // namespace

std::span<const FilterDefinition> string_filters() {
  return kStringFilters;
}

}  // namespace quire::jinja
