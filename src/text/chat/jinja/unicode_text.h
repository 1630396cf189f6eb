// Text as in Python: UTF-8 strings indexed by code point, with Python's character classes and case mappings.
// A byte that is not UTF-8 counts as a code point of its value. No function reads past the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::jinja {

struct CodePoint {
  char32_t value;
  size_t bytes;
};

// The code point at text[at]; at < text.size().
CodePoint decode_at(std::string_view text, size_t at);
void append_utf8(std::string& out, char32_t c);
size_t utf8_length(std::string_view text);
// The byte offset of code point `index` (at most the length of the text).
size_t byte_offset(std::string_view text, size_t index);
std::u32string to_code_points(std::string_view text);
std::string to_utf8(std::u32string_view text);

bool is_space(char32_t c);
bool is_line_break(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_alnum(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);
bool is_printable(char32_t c);
bool is_identifier_start(char32_t c);
bool is_identifier_part(char32_t c);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(std::string_view text);  // str.title
std::string capitalize(std::string_view text);
std::string swap_case(std::string_view text);
std::string case_fold(std::string_view text);

// str.strip; `chars` null = white space. Returns a view of `text`.
std::string_view strip(std::string_view text, const std::string* chars, bool left, bool right);
// str.splitlines.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

// Positions in bytes, npos if not found; linear in the sizes of both.
size_t find_text(std::string_view text, std::string_view needle, size_t from);
size_t rfind_text(std::string_view text, std::string_view needle);

}  // namespace quire::jinja
