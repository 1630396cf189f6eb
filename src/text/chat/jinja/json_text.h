// JSON input and output: conversion of request values to Values, and tojson, which is Python's json.dumps.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "text/chat/jinja/value.h"

namespace quire::jinja {

// Throws a limit error if the JSON is nested too deeply.
Value from_json(Heap& heap, const nlohmann::ordered_json& json);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  std::string indent;  // indentation per level, if indented
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Throws a type error for values that JSON cannot represent.
std::string to_json(Heap& heap, const Value& value, const JsonStyle& style);

}  // namespace quire::jinja
