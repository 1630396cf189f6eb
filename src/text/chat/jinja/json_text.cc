#include "text/chat/jinja/json_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "text/chat/jinja/ops.h"
#include "text/chat/jinja/unicode_text.h"
#include "text/chat/request_json.h"
#include "text/json_escape.h"

namespace quire::jinja {
namespace {

Value from_json_at(Heap& heap, const Json& json, int depth) {
  if (depth > kMaxValueDepth)
    fail(ErrorClass::kLimit, "the request is nested too deeply for a chat template");
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return Value::integer(static_cast<int64_t>(number));
      }
      return Value::of(heap.create<BigInt>(std::to_string(number)));
    }
    case Json::value_t::number_float:
      return Value::real(json.get<double>());
    case Json::value_t::string:
      return heap.string(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(from_json_at(heap, item, depth + 1));
      return heap.list(std::move(items));
    }
    case Json::value_t::object: {
      Value dict = heap.dict();
      dict.get<Dict>().entries.reserve(json.size());
      for (const auto& [key, value] : json.items()) {
        dict.get<Dict>().set(heap.string(key), from_json_at(heap, value, depth + 1));
      }
      return dict;
    }
    case Json::value_t::binary:
      return Value::of(heap.create<BigInt>(std::string(big_integer(json))));
    default:
      return Value::none();
  }
}

void append_escape(std::string& out, char32_t c) {
  std::array<char, 8> buffer;
  const int n = std::snprintf(buffer.data(), buffer.size(), "\\u%04x", static_cast<unsigned>(c));
  out.append(buffer.data(), static_cast<size_t>(n));
}

void append_ascii(std::string& out, char32_t c) {
  if (c < 0x10000) return append_escape(out, c);
  append_escape(out, 0xD800 + ((c - 0x10000) >> 10));
  append_escape(out, 0xDC00 + ((c - 0x10000) & 0x3FF));
}

class JsonWriter {
 public:
  JsonWriter(Heap& heap, const JsonStyle& style) : heap_(heap), style_(style) {}

  void write(const Value& value, int depth) {
    if (depth > kMaxValueDepth) fail(ErrorClass::kLimit, "a value is nested too deeply");
    heap_.step();
    heap_.require(out.size());
    switch (value.kind()) {
      case Kind::kNone:
        out += "null";
        return;
      case Kind::kBool:
        out += value.as_bool() ? "true" : "false";
        return;
      case Kind::kInt:
      case Kind::kBigInt:
        append_str(heap_, out, value);
        return;
      case Kind::kFloat:
        out += number(value.as_float());
        return;
      case Kind::kString:
        write_string(value.str());
        return;
      case Kind::kList:
      case Kind::kTuple:
        write_list(value.items(), depth);
        return;
      case Kind::kDict:
        write_dict(value.get<Dict>(), depth);
        return;
      default:
        fail_type("Object of type " + std::string(type_name(value)) + " is not JSON serializable");
    }
  }

  std::string out;

 private:
  static std::string number(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    return repr_float(d);
  }

  void newline(int depth) {
    out += '\n';
    heap_.require(out.size() + style_.indent.size() * static_cast<size_t>(depth));
    for (int i = 0; i < depth; ++i) out += style_.indent;
  }

  void separate(bool first, int depth) {
    if (!first) out += style_.item_separator;
    if (style_.indented) newline(depth);
  }

  void write_string(std::string_view text) {
    heap_.require(out.size() + text.size());
    heap_.step_bytes(text.size());
    out += '"';
    for (size_t at = 0; at < text.size();) {
      const char c = text[at];
      if (static_cast<unsigned char>(c) >= 0x80) {
        const auto point = decode_at(text, at);
        if (style_.ensure_ascii) {
          append_ascii(out, point.value);
        } else {
          out += text.substr(at, point.bytes);
        }
        at += point.bytes;
        continue;
      }
      append_json_escaped(out, c);
      ++at;
    }
    out += '"';
  }

  void write_list(const std::vector<Value>& items, int depth) {
    out += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      separate(i == 0, depth + 1);
      write(items[i], depth + 1);
    }
    if (!items.empty() && style_.indented) newline(depth);
    out += ']';
  }

  void write_key(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        return write_string(key.str());
      case Kind::kNone:
        return write_string("null");
      case Kind::kBool:
        return write_string(key.as_bool() ? "true" : "false");
      case Kind::kInt:
      case Kind::kBigInt:
        return write_string(str_of(heap_, key));
      case Kind::kFloat:
        return write_string(number(key.as_float()));
      default:
        fail_type("keys must be str, int, float, bool or None, not " + std::string(type_name(key)));
    }
  }

  void write_dict(const Dict& dict, int depth) {
    std::vector<const Dict::Entry*> entries;
    heap_.step_items(dict.entries.size());
    entries.reserve(dict.entries.size());
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [this](const Dict::Entry* a, const Dict::Entry* b) {
        heap_.step();
        return ordered(heap_, a->first, b->first, Comparison::kLt);
      });
    }
    out += '{';
    bool first = true;
    for (const auto* entry : entries) {
      separate(first, depth + 1);
      first = false;
      write_key(entry->first);
      out += style_.key_separator;
      write(entry->second, depth + 1);
    }
    if (!entries.empty() && style_.indented) newline(depth);
    out += '}';
  }

  Heap& heap_;
  const JsonStyle& style_;
};

}  // namespace

Value from_json(Heap& heap, const Json& json) {
  return from_json_at(heap, json, 0);
}

std::string to_json(Heap& heap, const Value& value, const JsonStyle& style) {
  JsonWriter writer(heap, style);
  writer.write(value, 0);
  return std::move(writer.out);
}

}  // namespace quire::jinja
