// str() and repr().
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/chat/jinja/objects.h"
#include "text/chat/jinja/ops.h"
#include "text/chat/jinja/unicode_text.h"

namespace quire::jinja {
namespace {

void append_value(Heap& heap, std::string& out, const Value& value, bool as_repr, int depth);

void append_items(Heap& heap, std::string& out, const std::vector<Value>& items, int depth) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out += ", ";
    append_value(heap, out, items[i], true, depth + 1);
  }
}

void append_dict(Heap& heap, std::string& out, const Dict& dict, int depth) {
  out += '{';
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    if (i != 0) out += ", ";
    append_value(heap, out, dict.entries[i].first, true, depth + 1);
    out += ": ";
    append_value(heap, out, dict.entries[i].second, true, depth + 1);
  }
  out += '}';
}

void append_view(Heap& heap, std::string& out, const Value& value, int depth) {
  out += type_name(value);
  out += "([";
  append_items(heap, out, collect(heap, value), depth);
  out += "])";
}

void append_range(std::string& out, const Range& range) {
  out += "range(" + std::to_string(range.start) + ", " + std::to_string(range.stop);
  if (range.step != 1) out += ", " + std::to_string(range.step);
  out += ')';
}

void append_value(Heap& heap, std::string& out, const Value& value, bool as_repr, int depth) {
  if (depth > kMaxValueDepth) fail(ErrorClass::kLimit, "a value is nested too deeply");
  heap.step();
  heap.require(out.size());
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kFrame:
      return;
    case Kind::kUndefined:
      if (as_repr) out += "Undefined";
      return;
    case Kind::kNone:
      out += "None";
      return;
    case Kind::kBool:
      out += value.as_bool() ? "True" : "False";
      return;
    case Kind::kInt:
      out += std::to_string(value.as_int());
      return;
    case Kind::kFloat:
      out += repr_float(value.as_float());
      return;
    case Kind::kBigInt:
      out += value.get<BigInt>().digits;
      return;
    case Kind::kString:
      heap.require(out.size() + value.str().size());
      heap.step_bytes(value.str().size());
      if (!as_repr) {
        out += value.str();
        return;
      }
      if (value.get<Str>().markup) out += "Markup(";
      append_string_repr(out, value.str());
      if (value.get<Str>().markup) out += ')';
      return;
    case Kind::kList:
      out += '[';
      append_items(heap, out, value.items(), depth);
      out += ']';
      return;
    case Kind::kTuple:
      out += '(';
      append_items(heap, out, value.items(), depth);
      out += value.items().size() == 1 ? ",)" : ")";
      return;
    case Kind::kDict:
      append_dict(heap, out, value.get<Dict>(), depth);
      return;
    case Kind::kDictView:
      append_view(heap, out, value, depth);
      return;
    case Kind::kRange:
      append_range(out, value.get<Range>());
      return;
    case Kind::kNamespace:
      out += "<Namespace ";
      append_value(heap, out, value.get<Namespace>().attributes, true, depth + 1);
      out += '>';
      return;
    case Kind::kMacro: {
      const auto& name = value.get<Macro>().definition->name;
      out += "<Macro ";
      if (name.is_missing()) {
        out += "anonymous";
      } else {
        append_string_repr(out, name.str());
      }
      out += '>';
      return;
    }
    case Kind::kLoop:
      out += "<LoopContext " + std::to_string(value.get<LoopState>().index0 + 1) + "/" +
             std::to_string(value.get<LoopState>().count()) + ">";
      return;
    case Kind::kFunction:
      out += "<function " + std::string(value.get<Function>().definition->name) + ">";
      return;
    case Kind::kMethod:
      out += "<built-in method " + std::string(value.get<BoundMethod>().definition->name) + " of " +
             std::string(type_name(value.get<BoundMethod>().self)) + " object>";
      return;
    case Kind::kIterator:
    case Kind::kCycler:
    case Kind::kJoiner:
      out += "<" + std::string(type_name(value)) + " object>";
      return;
  }
}

}  // namespace

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
    case Kind::kBigInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.get<Str>().markup ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kDictView: {
      const auto part = value.get<DictView>().part;
      return part == DictView::kKeys ? "dict_keys" : part == DictView::kValues ? "dict_values" : "dict_items";
    }
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return value.get<IteratorObject>().type_name;
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kMacro:
      return "Macro";
    case Kind::kFunction:
      return "function";
    case Kind::kMethod:
      return "builtin_function_or_method";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kCycler:
      return "Cycler";
    case Kind::kJoiner:
      return "Joiner";
    case Kind::kFrame:
      return "frame";
  }
  return "object";
}

std::string undefined_message(const UndefinedInfo& info) {
  if (!info.hint.empty()) return info.hint;
  std::string name;
  // Templates can create long names; the message contains the beginning.
  constexpr size_t kShown = 200;
  Heap heap(1 << 20, 1 << 16);
  try {
    append_repr(heap, name, info.name);
  } catch (const RenderError&) {
    name = "...";
  }
  if (name.size() > kShown) name = name.substr(0, kShown) + "...";
  if (info.owner == nullptr) return name + " is undefined";
  const std::string owner = std::string(info.owner) == "None" ? "None" : std::string(info.owner) + " object";
  if (!info.name.is_string()) return owner + " has no element " + name;
  return "'" + owner + "' has no attribute " + name;
}

void fail_undefined(const Value& value) {
  const auto& info = value.get<UndefinedInfo>();
  fail(info.error, undefined_message(info));
}

std::string repr_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // The shortest digits that give the same number when parsed, in Python's notation.
  std::array<char, 40> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific).ptr;
  std::string text(buffer.data(), end);
  std::string sign;
  if (text[0] == '-') {
    sign = "-";
    text.erase(0, 1);
  }
  const size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  std::string digits = text.substr(0, e);
  if (digits.size() > 1) digits.erase(1, 1);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    std::string mantissa = digits.substr(0, 1);
    if (count > 1) mantissa += "." + digits.substr(1);
    const int magnitude = exponent < 0 ? -exponent : exponent;
    return sign + mantissa + "e" + (exponent < 0 ? "-" : "+") + (magnitude < 10 ? "0" : "") +
           std::to_string(magnitude);
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return sign + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  return sign + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<size_t>(exponent) + 1);
}

void append_string_repr(std::string& out, std::string_view text) {
  const bool single = text.find('\'') != std::string_view::npos;
  const char quote = single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (size_t at = 0; at < text.size();) {
    const auto c = decode_at(text, at);
    at += c.bytes;
    if (c.value == static_cast<char32_t>(quote) || c.value == '\\') {
      out += '\\';
      out += static_cast<char>(c.value);
    } else if (c.value == '\n') {
      out += "\\n";
    } else if (c.value == '\r') {
      out += "\\r";
    } else if (c.value == '\t') {
      out += "\\t";
    } else if (is_printable(c.value)) {
      append_utf8(out, c.value);
    } else {
      std::array<char, 12> buffer;
      const char mark = c.value < 0x100 ? 'x' : c.value < 0x10000 ? 'u' : 'U';
      const int width = c.value < 0x100 ? 2 : c.value < 0x10000 ? 4 : 8;
      const int n = std::snprintf(buffer.data(), buffer.size(), "\\%c%0*x", mark, width,
                                  static_cast<unsigned>(c.value));
      out.append(buffer.data(), static_cast<size_t>(n));
    }
  }
  out += quote;
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

void append_str(Heap& heap, std::string& out, const Value& value) {
  append_value(heap, out, value, false, 0);
}
void append_repr(Heap& heap, std::string& out, const Value& value) {
  append_value(heap, out, value, true, 0);
}

std::string str_of(Heap& heap, const Value& value) {
  std::string out;
  append_str(heap, out, value);
  return out;
}

std::string repr_of(Heap& heap, const Value& value) {
  std::string out;
  append_repr(heap, out, value);
  return out;
}

}  // namespace quire::jinja
