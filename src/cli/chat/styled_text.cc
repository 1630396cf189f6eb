#include "cli/chat/styled_text.h"

#include <array>

#include "cli/terminal.h"

namespace quire::cli {
namespace {

struct StyleCode {
  Style style;
  const char* code;  // parameter of the SGR sequence
};
constexpr std::array kStyleCodes{StyleCode{kBold, "1"},      StyleCode{kDim, "2"},    StyleCode{kItalic, "3"},
                                 StyleCode{kUnderline, "4"}, StyleCode{kStrike, "9"}, StyleCode{kCode, "36"}};

void append_span(std::vector<Span>& spans, std::string_view text, Style style) {
  if (spans.empty() || spans.back().style != style) spans.push_back({{}, style});
  spans.back().text += text;
}

}  // namespace

int rendered_width(std::string_view line) {
  std::string plain;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      i = std::min(line.find('m', i), line.size());
    } else {
      plain += line[i];
    }
  }
  return display_width(plain);
}

void StyledWriter::reset_style() {
  if (style_ != 0) out_ += "\x1b[0m";
  style_ = 0;
}

void StyledWriter::emit(std::string_view text, Style style) {
  if (text.empty()) return;
  if (style != style_) {
    reset_style();
    std::string codes;
    for (const StyleCode& entry : kStyleCodes) {
      if ((style & entry.style) != 0) codes += (codes.empty() ? "" : ";") + std::string(entry.code);
    }
    if (!codes.empty()) out_ += "\x1b[" + codes + "m";
    style_ = style;
  }
  out_ += text;
}

void StyledWriter::begin_line(const Span& prefix, const Span& continuation) {
  continuation_ = continuation;
  indent_ = display_width(prefix.text);
  column_ = indent_;
  emit(prefix.text, prefix.style);
}

void StyledWriter::wrap() {
  reset_style();
  out_ += '\n';
  emit(continuation_.text, continuation_.style);
  indent_ = display_width(continuation_.text);
  column_ = indent_;
}

void StyledWriter::flush_word() {
  if (word_.empty()) return;
  if (column_ + num_spaces_ + word_width_ > width_ && column_ > indent_) {
    wrap();
  } else {
    for (const Span& span : spaces_) emit(span.text, span.style);
    column_ += num_spaces_;
  }
  spaces_.clear();
  num_spaces_ = 0;
  for (const Span& span : word_) {
    std::string_view left = span.text;
    while (!left.empty()) {
      const std::string_view character = left.substr(0, character_bytes(left));
      const int width = display_width(character);
      if (column_ + width > width_ && column_ > indent_) wrap();
      emit(character, span.style);
      column_ += width;
      left.remove_prefix(character.size());
    }
  }
  word_.clear();
  word_width_ = 0;
}

void StyledWriter::write(const Span& span) {
  std::string_view left = span.text;
  while (!left.empty()) {
    const std::string_view character = left.substr(0, character_bytes(left));
    left.remove_prefix(character.size());
    if (character == " " || character == "\t") {
      flush_word();
      append_span(spaces_, " ", span.style);
      ++num_spaces_;
      continue;
    }
    const int width = display_width(character);
    // Scripts with wide characters have no spaces: a line may end before and after each of them.
    if (width > 1) flush_word();
    append_span(word_, character, span.style);
    word_width_ += width;
    if (width > 1) flush_word();
  }
}

void StyledWriter::write_verbatim(const Span& span) {
  flush_word();
  emit(span.text, span.style);
}

void StyledWriter::end_line() {
  flush_word();
  spaces_.clear();
  num_spaces_ = 0;
  reset_style();
  out_ += '\n';
  column_ = 0;
}

}  // namespace quire::cli
