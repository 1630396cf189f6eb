// Small helpers for the text of messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace quire {

std::string to_text(double value);  // shortest form that reads back the same

inline void append_text(std::string& out, std::string_view part) {
  out += part;
}
template <typename T>
requires std::is_arithmetic_v<T>
void append_text(std::string& out, T part) {
  if constexpr (std::is_same_v<T, char>) {
    out += part;
  } else if constexpr (std::is_same_v<T, bool>) {
    out += part ? "true" : "false";
  } else if constexpr (std::is_floating_point_v<T>) {
    out += to_text(static_cast<double>(part));
  } else {
    out += std::to_string(part);
  }
}

// cat("the prompt has ", 5003, " tokens"): all parts as one string.
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  (append_text(out, parts), ...);
  return out;
}

std::string lowercase(std::string_view text);  // ASCII letters only

// Number of insertions, deletions and substitutions that turn one text into the other, ignoring case.
size_t edit_distance(std::string_view a, std::string_view b);

std::string join(const std::vector<std::string>& parts, std::string_view separator);

// The value with `decimals` digits after the decimal point.
std::string fixed(double value, int decimals);

// 1536 -> "1.5 KiB", 4294967296 -> "4.0 GiB".
std::string format_bytes(int64_t bytes);

// "4GiB", "512 MB", "1024", "1.5g" -> bytes. K, M, G and T alone or followed by "iB" are powers of 1024;
// followed by "B" they are powers of 1000. Returns -1 if the text is not a valid size.
int64_t parse_bytes(std::string_view text);

// "250ms", "1.5s", "2m", "30" (seconds) -> seconds. Returns -1 if the text is not a duration.
double parse_seconds(std::string_view text);

// Returns whether the text is well-formed UTF-8 (no surrogates, no overlong forms).
bool is_valid_utf8(std::string_view text);

// Compares in time that depends only on the lengths.
bool equal_constant_time(std::string_view a, std::string_view b);

}  // namespace quire
