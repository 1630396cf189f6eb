// Markdown within a line: emphasis, code spans, links and escapes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/chat/styled_text.h"

namespace quire::cli {

// Parses a line that arrives in pieces. Text is held back only while it may still turn out to be marked up:
// from a delimiter that opens a span until its counterpart or the end of the line. Not thread-safe.
class InlineParser {
 public:
  // `style` applies to the whole line.
  explicit InlineParser(Style style = 0) : style_(style) {}

  // Appends the spans that are complete.
  void feed(std::string_view text, std::vector<Span>& spans);
  // Ends the line: appends the rest, where delimiters without a counterpart are literal.
  void finish(std::vector<Span>& spans);

 private:
  void parse(bool complete, std::vector<Span>& spans);

  Style style_;
  std::string held_;
  char previous_ = ' ';  // the character before held_
};

}  // namespace quire::cli
