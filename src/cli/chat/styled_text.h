// Text with styles for an ANSI terminal, wrapped at words while it arrives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::cli {

using Style = uint8_t;  // a set of the bits below
inline constexpr Style kBold = 1;
inline constexpr Style kItalic = 2;
inline constexpr Style kUnderline = 4;
inline constexpr Style kStrike = 8;
inline constexpr Style kCode = 16;
inline constexpr Style kDim = 32;

struct Span {
  std::string text;
  Style style = 0;
};

// Columns of a rendered line, without its escape sequences.
int rendered_width(std::string_view line);

// Appends styled text to a string. A word is written when it is complete, on the next line if it does not fit
// in the current one. Styles end with each line. Not thread-safe.
class StyledWriter {
 public:
  // `out` must outlive the writer.
  StyledWriter(int width, std::string& out) : width_(width), out_(out) {}

  // Starts a line with `prefix`; lines that continue it start with `continuation`.
  void begin_line(const Span& prefix, const Span& continuation);
  // Writes text without newlines.
  void write(const Span& span);
  // Writes text without wrapping, for code.
  void write_verbatim(const Span& span);
  void end_line();

 private:
  void flush_word();
  void wrap();
  void emit(std::string_view text, Style style);
  void reset_style();

  int width_;
  std::string& out_;
  Style style_ = 0;  // in effect at the end of `out_`
  Span continuation_;
  int indent_ = 0;  // columns of the line's prefix
  int column_ = 0;
  std::vector<Span> word_;
  int word_width_ = 0;
  std::vector<Span> spaces_;  // before the word
  int num_spaces_ = 0;
};

}  // namespace quire::cli
