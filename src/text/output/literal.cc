#include "text/output/literal.h"

#include "base/hex.h"
#include "text/json_escape.h"

namespace quire {
namespace {

constexpr size_t kMaxWordBytes = 64;

bool digit_char(char c) {
  return c >= '0' && c <= '9';
}

bool is_json_number(std::string_view text) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t begin = i;
    while (i < text.size() && digit_char(text[i])) ++i;
    return i > begin;
  };
  if (i < text.size() && text[i] == '-') ++i;
  const size_t first = i;
  if (!digits() || (text[first] == '0' && i > first + 1)) return false;
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (!digits()) return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (!digits()) return false;
  }
  return i == text.size();
}

}  // namespace

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) append_json_escaped(out, c);
}

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && is_json_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_json_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string scalar_json(std::string_view text) {
  text = without_spaces(text);
  if (text == "true" || text == "True") return "true";
  if (text == "false" || text == "False") return "false";
  if (text == "null" || text == "None" || text == "nil") return "null";
  return is_json_number(text) ? std::string(text) : "";
}

void LiteralConverter::start(Dialect dialect) {
  *this = LiteralConverter();
  dialect_ = dialect;
}

bool LiteralConverter::push(char c, std::string& out) {
  switch (mode_) {
    case Mode::kString:
      string_byte(c, out);
      return true;
    case Mode::kEscape:
      escape_byte(c, out);
      return true;
    case Mode::kHex:
      if (hex_value(c) >= 0) {
        out += c;
        if (--hex_left_ == 0) mode_ = Mode::kString;
        return true;
      }
      // An escape that is too short: filled up, so that the text stays JSON.
      out.append(hex_left_, '0');
      mode_ = Mode::kString;
      string_byte(c, out);
      return true;
    case Mode::kWord:
      if (!ends_word(c)) {
        word_ += c;
        if (word_.size() > kMaxWordBytes) {
          out += '"';
          append_escaped(out, word_);
          word_.clear();
          mode_ = Mode::kLongWord;
        }
        return true;
      }
      flush_word(out);
      return between(c, out);
    case Mode::kLongWord:
      if (!ends_word(c)) {
        append_json_escaped(out, c);
        return true;
      }
      flush_word(out);
      return between(c, out);
    case Mode::kBetween:
      break;
  }
  return between(c, out);
}

void LiteralConverter::string_byte(char c, std::string& out) {
  const bool special = dialect_ != Dialect::kGemma && (c == quote_ || c == '\\');
  if (!special) {
    append_json_escaped(out, c);
  } else if (c == quote_) {
    out += '"';
    mode_ = Mode::kBetween;
    end_value();
  } else {
    mode_ = Mode::kEscape;
  }
}

void LiteralConverter::escape_byte(char c, std::string& out) {
  mode_ = Mode::kString;
  switch (c) {
    case 'n':
    case 't':
    case 'r':
    case 'b':
    case 'f':
    case '"':
    case '\\':
      out += '\\';
      out += c;
      return;
    case '/':
      out += dialect_ == Dialect::kJson ? "\\/" : "\\\\/";
      return;
    case '\'':
      out += '\'';
      return;
    case '\n':
      return;  // Python continues the line
    case 'u':
      out += "\\u";
      hex_left_ = 4;
      mode_ = Mode::kHex;
      return;
    case 'x':
      out += "\\u00";
      hex_left_ = 2;
      mode_ = Mode::kHex;
      return;
    case '0':
      out += "\\u0000";
      return;
    default:
      out += "\\\\";
      append_json_escaped(out, c);
  }
}

bool LiteralConverter::between(char c, std::string& out) {
  if (done_) return is_json_space(c);
  if (is_json_space(c)) {
    if (dialect_ == Dialect::kJson && depth_ > 0) out += c;
    return true;
  }
  switch (c) {
    case '"':
    case '\'':
      if (dialect_ == Dialect::kGemma) break;
      begin_string(c, out);
      return true;
    case '[':
    case '(':
    case '{':
      open(c, out);
      return true;
    case ']':
    case ')':
    case '}':
      if (depth_ == 0) return false;
      close(out);
      return true;
    case ',':
      if (depth_ == 0) return false;
      key_ = in_dict();
      if (dialect_ == Dialect::kJson) {
        out += ',';
      } else {
        comma_ = true;
      }
      return true;
    case ':':
      if (depth_ == 0) return false;
      out += dialect_ == Dialect::kJson ? ":" : ": ";
      key_ = false;
      return true;
    default:
      break;
  }
  begin_value(out);
  word_ = c;
  mode_ = Mode::kWord;
  return true;
}

void LiteralConverter::begin_value(std::string& out) {
  if (comma_) out += ", ";
  comma_ = false;
}

void LiteralConverter::end_value() {
  if (depth_ == 0) done_ = true;
}

void LiteralConverter::begin_string(char quote_char, std::string& out) {
  begin_value(out);
  out += '"';
  quote_ = quote_char;
  mode_ = Mode::kString;
}

void LiteralConverter::quote(std::string& out) {
  if (mode_ == Mode::kString) {
    out += '"';
    mode_ = Mode::kBetween;
    end_value();
    return;
  }
  if (in_word()) flush_word(out);
  if (!done_) begin_string('"', out);
}

void LiteralConverter::open(char c, std::string& out) {
  if (depth_ == kMaxDepth) {
    ++excess_;
    return;
  }
  begin_value(out);
  dicts_[depth_++] = c == '{';
  key_ = c == '{';
  out += c == '{' ? '{' : '[';
}

void LiteralConverter::close(std::string& out) {
  if (excess_ > 0) {
    --excess_;
    return;
  }
  comma_ = false;
  out += dicts_[--depth_] ? '}' : ']';
  key_ = false;
  end_value();
}

bool LiteralConverter::ends_word(char c) const {
  if (c == ',' || c == ']' || c == ')' || c == '}' || c == ':') {
    // A time such as 12:30 within a bare word of a list or a value.
    return c != ':' || key_ || dialect_ != Dialect::kGemma;
  }
  return is_json_space(c) && dialect_ != Dialect::kGemma;
}

void LiteralConverter::flush_word(std::string& out) {
  if (mode_ == Mode::kLongWord) {
    out += '"';
  } else {
    const std::string_view word = without_spaces(word_);
    const std::string scalar = in_dict() && key_ ? std::string() : scalar_json(word);
    if (scalar.empty()) {
      out += '"';
      append_escaped(out, word);
      out += '"';
    } else {
      out += scalar;
    }
    word_.clear();
  }
  mode_ = Mode::kBetween;
  end_value();
}

void LiteralConverter::finish(std::string& out) {
  if (in_word()) flush_word(out);
}

void LiteralConverter::close_all(std::string& out) {
  finish(out);
  if (mode_ == Mode::kEscape) out += "\\\\";
  if (mode_ == Mode::kHex) out.append(hex_left_, '0');
  if (in_string()) out += '"';
  mode_ = Mode::kBetween;
  excess_ = 0;
  while (depth_ > 0) close(out);
}

bool JsonCopier::push(char c) {
  if (done_) return false;
  if (in_string_) {
    if (escape_) {
      escape_ = false;
    } else if (c == '\\') {
      escape_ = true;
    } else if (c == '"') {
      in_string_ = false;
      if (depth_ == 0) done_ = true;
    }
    return true;
  }
  if (scalar_ && (is_json_space(c) || c == ',' || c == '}' || c == ']')) {
    done_ = true;
    return false;
  }
  if (c == '"') {
    in_string_ = true;
  } else if (c == '{' || c == '[') {
    ++depth_;
  } else if (c == '}' || c == ']') {
    if (depth_ == 0) {
      done_ = true;
      return false;
    }
    if (--depth_ == 0) done_ = true;
  } else if (depth_ == 0 && !is_json_space(c)) {
    scalar_ = true;
  }
  started_ = true;
  return true;
}

}  // namespace quire
