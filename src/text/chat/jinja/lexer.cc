#include "text/chat/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "text/chat/jinja/unicode_text.h"

namespace quire::jinja {
namespace {

constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

// Like jinja2, accepts \n, \r\n and \r as line ends, and removes one at the end of the template.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)), text_(source_) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) {
      template_text();
    }
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  bool looking_at(std::string_view what, size_t at) const { return text_.substr(at, what.size()) == what; }
  char peek(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }

  Token& add(TokenKind kind, std::string text) {
    auto& token = tokens_.emplace_back();
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    return token;
  }

  // Advances to `end` and counts lines.
  void advance(size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<ptrdiff_t>(at_),
                                         text_.begin() + static_cast<ptrdiff_t>(end), '\n'));
    if (end > at_) line_starting_ = text_[end - 1] == '\n';
    at_ = end;
  }

  size_t skip_space(size_t at) const {
    while (at < text_.size()) {
      const auto c = decode_at(text_, at);
      if (!is_space(c.value)) break;
      at += c.bytes;
    }
    return at;
  }

  // The end of "%}" including the white space that it removes (a newline, or all white space for "-%}"); 0 if
  // there is none at this position.
  size_t block_end(size_t at) const {
    if (looking_at("-%}", at)) return skip_space(at + 3);
    if (looking_at("+%}", at)) return at + 3;
    if (!looking_at("%}", at)) return 0;
    return peek(at + 2) == '\n' ? at + 3 : at + 2;
  }

  // Adds the text from at_ to `end`, which precedes a tag with the given sign. lstrip: lstrip_blocks applies
  // to the tag.
  void data_before(size_t end, char sign, bool lstrip) {
    std::string_view data = text_.substr(at_, end - at_);
    if (sign == '-') {
      data = strip(data, nullptr, false, true);
    } else if (sign != '+' && lstrip) {
      const size_t newline = data.rfind('\n');
      const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
      if ((start > 0 || line_starting_) && strip(data.substr(start), nullptr, true, false).empty()) {
        data = data.substr(0, start);
      }
    }
    if (!data.empty()) add(TokenKind::kData, std::string(data));
    advance(end);
  }

  // If the tag at `at` is a raw tag, the position after "raw ... %}", otherwise 0.
  size_t raw_begin(size_t at) const {
    size_t p = at + 2;
    if (peek(p) == '-' || peek(p) == '+') ++p;
    p = skip_space(p);
    if (!looking_at("raw", p)) return 0;
    p = skip_space(p + 3);
    if (looking_at("-%}", p)) return skip_space(p + 3);
    return looking_at("%}", p) ? p + 2 : 0;
  }

  void template_text() {
    size_t open = at_;
    for (;; ++open) {
      open = text_.find('{', open);
      if (open == std::string_view::npos || open + 1 >= text_.size()) {
        add(TokenKind::kData, std::string(text_.substr(at_)));
        advance(text_.size());
        return;
      }
      const char next = text_[open + 1];
      if (next == '%' || next == '{' || next == '#') break;
    }
    const char type = text_[open + 1];
    const char sign = peek(open + 2) == '-' || peek(open + 2) == '+' ? peek(open + 2) : '\0';
    data_before(open, sign, type != '{');
    const size_t start = open + 2 + (sign != '\0' ? 1 : 0);
    if (type == '#') {
      comment(start);
    } else if (type == '{') {
      add(TokenKind::kVariableBegin, "");
      advance(start);
      expression_tokens(true);
    } else if (const size_t raw = raw_begin(open); raw != 0) {
      advance(raw);
      raw_block();
    } else {
      add(TokenKind::kBlockBegin, "");
      advance(start);
      expression_tokens(false);
    }
  }

  void comment(size_t start) {
    const int line = line_;
    const size_t close = text_.find("#}", start);
    if (close == std::string_view::npos) {
      if (start >= text_.size()) return advance(text_.size());
      throw SyntaxError{"expected '#}', the end of the comment tag that starts here", line};
    }
    const char sign = close > start ? text_[close - 1] : '\0';
    size_t end = close + 2;
    if (sign == '-') {
      end = skip_space(end);
    } else if (sign != '+' && peek(end) == '\n') {
      ++end;
    }
    advance(end);
  }

  void raw_block() {
    const int line = line_;
    for (size_t open = text_.find("{%", at_); open != std::string_view::npos;
         open = text_.find("{%", open + 1)) {
      size_t p = open + 2;
      const char sign = peek(p) == '-' || peek(p) == '+' ? peek(p) : '\0';
      if (sign != '\0') ++p;
      p = skip_space(p);
      if (!looking_at("endraw", p)) continue;
      p = block_end(skip_space(p + 6));
      if (p == 0) continue;
      data_before(open, sign, true);
      advance(p);
      return;
    }
    throw SyntaxError{"expected '{% endraw %}', the end of the raw block that starts here", line};
  }

  // Reads tokens up to the end of a {{ or {% tag, or of the template.
  void expression_tokens(bool variable) {
    std::vector<char> brackets;
    while (at_ < text_.size()) {
      if (brackets.empty()) {
        size_t end = 0;
        if (!variable) {
          end = block_end(at_);
        } else if (looking_at("}}", at_)) {
          end = at_ + 2;
        } else if (looking_at("-}}", at_)) {
          end = skip_space(at_ + 3);
        }
        if (end != 0) {
          add(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
          advance(end);
          return;
        }
      }
      const auto c = decode_at(text_, at_);
      if (is_space(c.value)) {
        advance(skip_space(at_));
      } else if (c.value >= '0' && c.value <= '9') {
        number();
      } else if (is_identifier_part(c.value) || is_alnum(c.value)) {
        name();
      } else if (c.value == '\'' || c.value == '"') {
        string(static_cast<char>(c.value));
      } else {
        operator_token(brackets);
      }
    }
  }

  void name() {
    size_t end = at_;
    while (end < text_.size()) {
      const auto c = decode_at(text_, end);
      if (!is_identifier_part(c.value) && !is_alnum(c.value)) break;
      end += c.bytes;
    }
    const auto word = text_.substr(at_, end - at_);
    bool good = true;
    for (size_t i = 0; i < word.size();) {
      const auto c = decode_at(word, i);
      good = good && (i == 0 ? is_identifier_start(c.value) : is_identifier_part(c.value));
      i += c.bytes;
    }
    if (!good) throw SyntaxError{"Invalid character in identifier '" + std::string(word) + "'", line_};
    add(TokenKind::kName, std::string(word));
    advance(end);
  }

  // The end of digits with single underscores between them.
  template <typename Accept>
  size_t digits(size_t at, Accept accept) const {
    while (accept(peek(at)) || (peek(at) == '_' && accept(peek(at + 1)))) ++at;
    return at;
  }

  void number() {
    const auto decimal = [](char c) { return c >= '0' && c <= '9'; };
    const size_t whole = digits(at_, decimal);
    size_t end = whole;
    if (peek(end) == '.' && decimal(peek(end + 1))) end = digits(end + 1, decimal);
    const char e = peek(end);
    if (e == 'e' || e == 'E') {
      const size_t sign = peek(end + 1) == '+' || peek(end + 1) == '-' ? 1 : 0;
      if (decimal(peek(end + 1 + sign))) end = digits(end + 1 + sign, decimal);
    }
    // ".5.1": the text after a dot is an index, not a fraction.
    const bool after_dot = at_ > 0 && text_[at_ - 1] == '.';
    if (end > whole && !after_dot) return real(end);
    integer(whole);
  }

  static std::string without_underscores(std::string_view text) {
    std::string out;
    std::copy_if(text.begin(), text.end(), std::back_inserter(out), [](char c) { return c != '_'; });
    return out;
  }

  void real(size_t end) {
    auto& token = add(TokenKind::kFloat, without_underscores(text_.substr(at_, end - at_)));
    token.real = std::strtod(token.text.c_str(), nullptr);
    advance(end);
  }

  void integer(size_t whole) {
    size_t end = whole;
    int base = 10;
    if (text_[at_] == '0') {
      const char mark = static_cast<char>(peek(at_ + 1) | 0x20);
      const auto is_base_digit = [&](char c) {
        if (mark == 'b') return c == '0' || c == '1';
        if (mark == 'o') return c >= '0' && c <= '7';
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      };
      const size_t based = mark == 'b' || mark == 'o' || mark == 'x' ? digits(at_ + 2, is_base_digit) : 0;
      if (based > at_ + 2) {
        base = mark == 'b' ? 2 : mark == 'o' ? 8 : 16;
        end = based;
      } else {
        end = digits(at_, [](char c) { return c == '0'; });
      }
    }
    auto& token = add(TokenKind::kInteger, without_underscores(text_.substr(at_, end - at_)));
    const char* first = token.text.c_str() + (base == 10 ? 0 : 2);
    const char* last = token.text.c_str() + token.text.size();
    if (std::from_chars(first, last, token.integer, base).ec != std::errc()) {
      if (base != 10) throw SyntaxError{"the integer " + token.text + " has more than 63 bits", line_};
      token.big = true;
    }
    advance(end);
  }

  void string(char quote) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) {
      throw SyntaxError{std::string("expected ") + quote + ", the end of the string that starts here", line_};
    }
    auto value = unescape(text_.substr(at_ + 1, end - at_ - 1));
    add(TokenKind::kString, std::move(value));
    advance(end + 1);
  }

  // Python's "unicode-escape" codec.
  std::string unescape(std::string_view body) const {
    std::string out;
    for (size_t i = 0; i < body.size();) {
      if (body[i] != '\\' || i + 1 >= body.size()) {
        out += body[i++];
        continue;
      }
      const auto c = decode_at(body, i + 1);
      i += 1 + c.bytes;
      static constexpr std::string_view kFrom = "\\'\"abfnrtv";
      static constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
      if (c.value == '\n') continue;
      if (c.value < 128 && kFrom.find(static_cast<char>(c.value)) != std::string_view::npos) {
        out += kTo[kFrom.find(static_cast<char>(c.value))];
      } else if (c.value >= '0' && c.value <= '7') {
        char32_t code = c.value - '0';
        for (int n = 0; n < 2 && i < body.size() && body[i] >= '0' && body[i] <= '7'; ++n) {
          code = code * 8 + static_cast<char32_t>(body[i++] - '0');
        }
        append_utf8(out, code);
      } else if (c.value == 'x' || c.value == 'u' || c.value == 'U') {
        const size_t width = c.value == 'x' ? 2 : c.value == 'u' ? 4 : 8;
        append_utf8(out, hex_escape(body.substr(i, width), width));
        i += width;
      } else if (c.value == 'N') {
        throw SyntaxError{"\\N{...} escapes are not supported, write \\uXXXX", line_};
      } else {
        out += '\\';
        append_unknown(out, c.value);
      }
    }
    return out;
  }

  // The reference escapes non-ASCII characters before it processes backslashes, so such a character after a
  // backslash becomes the text of its own escape.
  static void append_unknown(std::string& out, char32_t c) {
    if (c < 128) {
      out += static_cast<char>(c);
      return;
    }
    std::array<char, 12> buffer;
    const int width = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
    const char mark = c < 0x100 ? 'x' : c < 0x10000 ? 'u' : 'U';
    const int n =
        std::snprintf(buffer.data(), buffer.size(), "%c%0*x", mark, width, static_cast<unsigned>(c));
    out.append(buffer.data(), static_cast<size_t>(n));
  }

  char32_t hex_escape(std::string_view text, size_t width) const {
    uint32_t code = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), code, 16);
    if (text.size() != width || result.ec != std::errc() || result.ptr != text.data() + width) {
      throw SyntaxError{"expected " + std::to_string(width) + " hexadecimal digits in an escape of a string",
                        line_};
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      throw SyntaxError{"an escape in a string is not a valid character", line_};
    }
    return code;
  }

  void operator_token(std::vector<char>& brackets) {
    const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                     [&](std::string_view op) { return looking_at(op, at_); });
    if (found == std::end(kOperators)) {
      const auto c = decode_at(text_, at_);
      throw SyntaxError{"unexpected char '" + std::string(text_.substr(at_, c.bytes)) + "'", line_};
    }
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') brackets.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty()) throw SyntaxError{std::string("unexpected '") + c + "'", line_};
      if (brackets.back() != c) {
        throw SyntaxError{std::string("unexpected '") + c + "', expected '" + brackets.back() + "'", line_};
      }
      brackets.pop_back();
    }
    add(TokenKind::kOperator, std::string(*found));
    advance(at_ + found->size());
  }

  std::string source_;
  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(normalize_newlines(source)).run();
}

std::string describe(TokenKind kind) {
  switch (kind) {
    case TokenKind::kEnd:
      return "end of template";
    case TokenKind::kData:
      return "template data / text";
    case TokenKind::kVariableBegin:
      return "begin of print statement";
    case TokenKind::kVariableEnd:
      return "end of print statement";
    case TokenKind::kBlockBegin:
      return "begin of statement block";
    case TokenKind::kBlockEnd:
      return "end of statement block";
    case TokenKind::kName:
      return "name";
    case TokenKind::kString:
      return "string";
    case TokenKind::kInteger:
      return "integer";
    case TokenKind::kFloat:
      return "float";
    case TokenKind::kOperator:
      return "operator";
  }
  return "token";
}

std::string describe(const Token& token) {
  if (token.kind == TokenKind::kName || token.kind == TokenKind::kOperator ||
      token.kind == TokenKind::kString || token.kind == TokenKind::kInteger ||
      token.kind == TokenKind::kFloat) {
    return token.text;
  }
  return describe(token.kind);
}

}  // namespace quire::jinja
