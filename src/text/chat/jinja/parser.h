// Parses a template to a Program: the syntax tree with resolved variables.
#pragma once

#include <string_view>

#include "text/chat/jinja/ast.h"
#include "text/chat/jinja/lexer.h"

namespace quire::jinja {

// Maximum nesting of brackets, operators and blocks in a template.
inline constexpr int kMaxNesting = 100;
// Maximum depth of an expression tree; `a + b + c + ...` has one level per operator.
inline constexpr int kMaxExprDepth = 400;

// Throws SyntaxError with the expected and the actual token, and the line.
void parse_program(std::string_view source, Program& program);

}  // namespace quire::jinja
