// pprint.pformat.
#pragma once

#include <string>

#include "text/chat/jinja/value.h"

namespace quire::jinja {

std::string pretty_print(Heap& heap, const Value& value);

}  // namespace quire::jinja
