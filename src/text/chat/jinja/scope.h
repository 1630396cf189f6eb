// Resolves the variables of a parsed template to slots, by jinja2's rules. Loops, macros, call, with, filter
// and set blocks have their own frame; `if` has not. Variables stored in a frame are local to it, and start
// as an alias of the variable of the same name outside. A name that no enclosing frame refers to is looked up
// in the context (the variables of the request, then the globals) when the frame is entered.
#pragma once

#include "text/chat/jinja/ast.h"

namespace quire::jinja {

// Sets the layouts and refs of `program`. Throws SyntaxError for errors that can be detected without
// rendering: an unknown filter or test outside of a condition, an assignment to `loop`.
void resolve_variables(Program& program);

}  // namespace quire::jinja
