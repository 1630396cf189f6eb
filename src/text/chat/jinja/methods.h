// The method tables of the types.
#pragma once

#include <span>

#include "text/chat/jinja/objects.h"

namespace quire::jinja {

std::span<const MethodDefinition> string_methods();

}  // namespace quire::jinja
