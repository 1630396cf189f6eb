// Cuts a template into tokens the way jinja2 does with trim_blocks and lstrip_blocks on: white space control
// is applied here, comments and raw blocks are resolved here. Template text comes out as kData tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/jinja/value.h"

namespace quire::jinja {

// A template that cannot be parsed. ChatTemplate::parse adds the origin and throws quire::Error.
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
  std::string
      text;  // data, the name, the string's value, the operator, the digits of an integer (decimal or 0x...)
  double real = 0;
  int64_t integer = 0;
  bool big = false;  // the integer has more than 63 bits; `text` has its decimal digits
};

// Throws SyntaxError.
std::vector<Token> tokenize(std::string_view source);

// How messages name a token or a kind of token.
std::string describe(const Token& token);
std::string describe(TokenKind kind);

}  // namespace quire::jinja
