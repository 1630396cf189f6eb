// Helper functions for filters, tests and methods.
#pragma once

#include <string>

#include "text/chat/jinja/interpreter.h"

namespace quire::jinja {

// Looking up the class of a character costs as much as copying this many bytes.
inline constexpr size_t kClassCost = 8;

inline int64_t integer_or(const Value& value, int64_t fallback) {
  return value.is_missing() ? fallback : to_index(value);
}
inline bool truth_or(const Value& value, bool fallback) {
  return value.is_missing() ? fallback : truthy(value);
}

// Checks the length of text requested by a template; fails instead of allocating too much.
inline size_t checked_size(Heap& heap, int64_t count) {
  const auto size = static_cast<size_t>(count < 0 ? 0 : count);
  heap.require(size);
  heap.step_bytes(size);
  return size;
}

// The value as text, like jinja2's soft_str; strings are returned unchanged.
inline Value soft_string(Interpreter& interpreter, const Value& value) {
  return value.is_string() ? value : interpreter.heap().string(str_of(interpreter.heap(), value));
}

// A string with the same markup flag as `like`.
inline Value string_like(Heap& heap, const Value& like, std::string text) {
  Value result = heap.string(std::move(text));
  result.get<Str>().markup = like.is_string() && like.get<Str>().markup;
  return result;
}

// The text of a value, which must be a string.
inline const std::string& need_string(const Value& value, std::string_view what) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_string()) fail_type(std::string(what) + " must be str, not " + std::string(type_name(value)));
  return value.str();
}

}  // namespace quire::jinja
