// Resolves the variables of a parsed template to slots, by jinja2's rules: a loop, macro, call, with, filter
// or set block is a frame of its own; `if` is not. What a frame stores is its own, and starts as an alias of
// the variable of the same name outside; a name that no frame outside refers to is looked up in the context
// (the variables of the request, then the globals) when the frame is entered.
#pragma once

#include "text/chat/jinja/ast.h"

namespace quire::jinja {

// Fills the layouts and refs of `program`. Throws SyntaxError for what can be told without rendering: an
// unknown filter or test outside of a condition, an assignment to `loop`.
void resolve_variables(Program& program);

}  // namespace quire::jinja
