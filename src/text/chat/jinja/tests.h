// The tests of jinja2 (`x is defined`), by name.
#pragma once

#include <string_view>

#include "text/chat/jinja/ast.h"

namespace quire::jinja {

// Null if there is none.
TestFunction find_test(std::string_view name);

}  // namespace quire::jinja
