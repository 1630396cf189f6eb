// The terminal that a command writes to: size, styles, and the width of text.
#pragma once

#include <string>
#include <string_view>

namespace quire::cli {

bool is_terminal(int fd);
// True if `fd` is a terminal that understands ANSI escape sequences (TERM is not "dumb").
bool has_escapes(int fd);
// True if output to `fd` should have styles and colors: has_escapes() and NO_COLOR is unset or empty.
bool has_styles(int fd);

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};
// The size of the terminal `fd`, or 80 x 24 if it is not known.
TerminalSize terminal_size(int fd);

// Columns that a terminal needs for UTF-8 text without control characters.
int display_width(std::string_view text);
// Number of bytes of the first character of non-empty UTF-8 text.
size_t character_bytes(std::string_view text);

// Returns the text without control characters other than newline and tab, so that text from a model or a
// server cannot send escape sequences to the terminal.
std::string without_controls(std::string_view text);

}  // namespace quire::cli
