// Numbers read from text by Python's rules.
#pragma once

#include <optional>
#include <string_view>

#include "text/chat/jinja/value.h"

namespace quire::jinja {

// float(text); nothing when it raises.
std::optional<double> parse_float(std::string_view text);
// int(text, base); missing when it raises. More than 63 bits make a BigInt (decimal digits only).
Value parse_integer(Heap& heap, std::string_view text, int64_t base);

}  // namespace quire::jinja
