// Markdown for an ANSI terminal, rendered while a model generates it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/chat/inline_markup.h"
#include "cli/chat/styled_text.h"

namespace quire::cli {

// Renders headings, emphasis, code, lists, quotes, links, rules and tables. Text appears word by word; only a
// table is held back until it is complete, because its columns depend on all rows. Line breaks are kept.
// Control characters are removed. Not thread-safe.
class MarkdownRenderer {
 public:
  explicit MarkdownRenderer(int width) : width_(width), writer_(width, out_) {}

  // Takes a piece of Markdown (whole UTF-8 characters) and returns the output that is ready.
  std::string feed(std::string_view text);
  // Returns the rest of the output, which ends with a newline unless there was no text.
  std::string finish();

 private:
  enum class State { kLineStart, kInline, kFencedStart, kFenced };

  size_t take(std::string_view text);  // returns the number of bytes taken, at least one
  void start_line(bool complete);
  void start_paragraph(const Span& prefix, const Span& continuation, size_t num_bytes, Style style,
                       bool complete);
  void open_fence(std::string_view line, char mark);
  void start_code_line(bool complete);
  void write_inline(std::string_view text);
  void end_inline();
  void flush_table();

  int width_;
  std::string out_;
  StyledWriter writer_;
  State state_ = State::kLineStart;
  std::string line_;  // the start of a line whose kind is not known yet
  InlineParser inline_;
  std::vector<std::string> table_;  // rows seen so far
  char fence_mark_ = '`';
  size_t fence_length_ = 0;
};

}  // namespace quire::cli
