#include "server/openai/json_out.h"

#include <array>
#include <charconv>
#include <cmath>

namespace quire {
namespace {

// Length of the well-formed UTF-8 sequence at the beginning of `text`; 0 if there is none (Unicode 15, table
// 3-7).
size_t utf8_length(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return 1;
  size_t length = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  if (length == 0 || text.size() < length || at(1) < low || at(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

void append_escape(std::string& out, char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  out += "\\u00";
  out += kDigits[static_cast<uint8_t>(c) >> 4];
  out += kDigits[static_cast<uint8_t>(c) & 15];
}

template <typename T>
JsonOut& write_number(JsonOut& out, T value) {
  if (!std::isfinite(value)) return out.null();
  std::array<char, 40> text;
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  return out.raw({text.data(), static_cast<size_t>(result.ptr - text.data())});
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  size_t copied = 0;
  size_t i = 0;
  const auto copy_until_here = [&] { out.append(text.substr(copied, i - copied)); };
  while (i < text.size()) {
    const auto c = static_cast<uint8_t>(text[i]);
    if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\') {
      ++i;
      continue;
    }
    if (c < 0x80) {
      copy_until_here();
      append_escape(out, text[i]);
      copied = ++i;
      continue;
    }
    const size_t length = utf8_length(text.substr(i));
    if (length > 0) {
      i += length;
      continue;
    }
    copy_until_here();
    out += "\xEF\xBF\xBD";
    copied = ++i;
  }
  copy_until_here();
  out += '"';
}

void JsonOut::separate() {
  if (comma_) out_ += ',';
  comma_ = true;
}

JsonOut& JsonOut::open(char bracket) {
  separate();
  out_ += bracket;
  comma_ = false;
  return *this;
}

JsonOut& JsonOut::close(char bracket) {
  out_ += bracket;
  comma_ = true;
  return *this;
}

JsonOut& JsonOut::key(std::string_view name) {
  string(name);
  out_ += ':';
  comma_ = false;
  return *this;
}

JsonOut& JsonOut::string(std::string_view text) {
  separate();
  append_json_string(out_, text);
  return *this;
}

JsonOut& JsonOut::number(float value) {
  return write_number(*this, value);
}
JsonOut& JsonOut::number(double value) {
  return write_number(*this, value);
}

JsonOut& JsonOut::raw(std::string_view json) {
  separate();
  out_ += json;
  return *this;
}

}  // namespace quire
