// The filters of jinja2 (with transformers' tojson), by name.
#pragma once

#include <span>
#include <string_view>

#include "text/chat/jinja/ast.h"

namespace quire::jinja {

struct FilterDefinition {
  std::string_view name;
  FilterFunction function;
};

// Null if there is none.
FilterFunction find_filter(std::string_view name);

// The parts of the table: filters of strings, of sequences, and of numbers and other values.
std::span<const FilterDefinition> string_filters();
std::span<const FilterDefinition> sequence_filters();
std::span<const FilterDefinition> value_filters();

// item.attribute for a dotted path, like the `attribute` argument of filters.
Value get_path(Interpreter& interpreter, Value item, const Value& path);

}  // namespace quire::jinja
