// Escapes of JSON strings.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace quire {

// Appends a byte of a string's text, escaped like json.dumps(ensure_ascii=False).
inline void append_json_escaped(std::string& out, char c) {
  constexpr std::string_view kFrom = "\"\\\b\f\n\r\t";
  constexpr std::string_view kTo = "\"\\bfnrt";
  const auto byte = static_cast<unsigned char>(c);
  if (const size_t i = kFrom.find(c); i != std::string_view::npos) {
    out += '\\';
    out += kTo[i];
  } else if (byte < 0x20) {
    char buffer[8];
    std::snprintf(buffer, sizeof(buffer), "\\u%04x", static_cast<unsigned>(byte));
    out += buffer;
  } else {
    out += c;
  }
}

}  // namespace quire
