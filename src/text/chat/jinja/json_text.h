// JSON in and out of a template: the values of a request become Values, and tojson is Python's json.dumps.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "text/chat/jinja/value.h"

namespace quire::jinja {

// Throws a limit error when the JSON is nested too deeply.
Value from_json(Heap& heap, const nlohmann::ordered_json& json);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  std::string indent;  // of one level, when indented
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Type error for what JSON cannot hold.
std::string to_json(Heap& heap, const Value& value, const JsonStyle& style);

}  // namespace quire::jinja
