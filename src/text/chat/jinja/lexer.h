// Splits a template into tokens like jinja2 with trim_blocks and lstrip_blocks. White space control, comments
// and raw blocks are handled here. Template text is returned as kData tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/jinja/value.h"

namespace quire::jinja {

// A syntax error in a template. ChatTemplate::parse adds the origin and throws quire::Error.
struct SyntaxError {
  std::string message;
  int line;
};

enum class TokenKind : uint8_t {
  kEnd,
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // data, name, value of a string, operator, or digits of an integer (decimal or 0x...)
  double real = 0;
  int64_t integer = 0;
  bool big = false;  // the integer has more than 63 bits; `text` contains its decimal digits
};

// Throws SyntaxError.
std::vector<Token> tokenize(std::string_view source);

// Descriptions of tokens and token kinds for messages.
std::string describe(const Token& token);
std::string describe(TokenKind kind);

}  // namespace quire::jinja
