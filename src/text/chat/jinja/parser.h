// Parses a template into a Program: the syntax tree with its variables resolved.
#pragma once

#include <string_view>

#include "text/chat/jinja/ast.h"
#include "text/chat/jinja/lexer.h"

namespace quire::jinja {

// The deepest nesting of brackets, operators and blocks that a template may have.
inline constexpr int kMaxNesting = 100;
// The deepest expression tree; `a + b + c + ...` is one level for each operator.
inline constexpr int kMaxExprDepth = 400;

// Throws SyntaxError: what was expected, what was met, and the line.
void parse_program(std::string_view source, Program& program);

}  // namespace quire::jinja
