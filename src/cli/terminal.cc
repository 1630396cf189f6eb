#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

namespace quire::cli {
namespace {

// Decodes the first character of `text`; an invalid byte counts as one character.
utf8proc_int32_t first_character(std::string_view text, size_t& num_bytes) {
  utf8proc_int32_t code = -1;
  const auto used = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                     static_cast<utf8proc_ssize_t>(text.size()), &code);
  num_bytes = used > 0 ? static_cast<size_t>(used) : 1;
  return used > 0 ? code : -1;
}

}  // namespace

bool is_terminal(int fd) {
  return isatty(fd) == 1;
}

bool has_escapes(int fd) {
  const char* type = std::getenv("TERM");
  return is_terminal(fd) && (type == nullptr || std::string_view(type) != "dumb");
}

bool has_styles(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  return has_escapes(fd) && (no_color == nullptr || *no_color == '\0');
}

TerminalSize terminal_size(int fd) {
  TerminalSize size;
  winsize window{};
  if (ioctl(fd, TIOCGWINSZ, &window) == 0) {
    if (window.ws_col > 0) size.columns = window.ws_col;
    if (window.ws_row > 0) size.rows = window.ws_row;
  }
  return size;
}

size_t character_bytes(std::string_view text) {
  size_t num_bytes = 0;
  (void)first_character(text, num_bytes);
  return num_bytes;
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    size_t num_bytes = 0;
    const utf8proc_int32_t code = first_character(text, num_bytes);
    width += code < 0 ? 1 : std::max(0, utf8proc_charwidth(code));
    text.remove_prefix(num_bytes);
  }
  return width;
}

std::string without_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    size_t num_bytes = 0;
    const utf8proc_int32_t code = first_character(text, num_bytes);
    const bool control = (code >= 0 && code < 0x20 && code != '\n' && code != '\t') ||
                         (code >= 0x7F && code <= 0x9F) || code < 0;
    if (!control) out += text.substr(0, num_bytes);
    text.remove_prefix(num_bytes);
  }
  return out;
}

}  // namespace quire::cli
