// Python's two kinds of formatting: the % operator and str.format.
#pragma once

#include <string>
#include <string_view>

#include "text/chat/jinja/objects.h"

namespace quire::jinja {

// format % values; a tuple contains several values, a dictionary those of %(name)s.
std::string printf_format(Heap& heap, std::string_view format, const Value& values);

// format.format(*args, **kwargs).
std::string brace_format(Heap& heap, std::string_view format, const Arguments& args);

// format(value, spec) for strings and numbers; for other types, spec must be "".
std::string format_value(Heap& heap, const Value& value, std::string_view spec);

}  // namespace quire::jinja
