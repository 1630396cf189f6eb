// Parsing of numbers according to Python's rules.
#pragma once

#include <optional>
#include <string_view>

#include "text/chat/jinja/value.h"

namespace quire::jinja {

// float(text); nullopt if it raises an error.
std::optional<double> parse_float(std::string_view text);
// int(text, base); missing if it raises an error. More than 63 bits give a BigInt (decimal digits only).
Value parse_integer(Heap& heap, std::string_view text, int64_t base);

}  // namespace quire::jinja
