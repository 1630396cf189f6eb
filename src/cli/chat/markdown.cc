#include "cli/chat/markdown.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "cli/chat/table.h"
#include "cli/terminal.h"

namespace quire::cli {
namespace {

constexpr int kRuleWidth = 40;
constexpr size_t kMaxNumberDigits = 9;  // maximum length of a list number, as in CommonMark

enum class Kind { kUndecided, kParagraph, kHeading, kItem, kRule, kFence, kTable };

// How a line starts.
struct LineStart {
  Kind kind = Kind::kUndecided;
  size_t length = 0;        // bytes before the text of the line
  size_t quote_depth = 0;   // number of '>'
  size_t indent = 0;        // spaces before the text or the marker
  size_t level = 0;         // heading level, 1 to 6
  std::string_view marker;  // list item marker
};

bool all_of_set(std::string_view text, std::string_view set) {
  return text.find_first_not_of(set) == std::string_view::npos;
}

size_t count_leading(std::string_view text, char c) {
  return std::min(text.find_first_not_of(c), text.size());
}

// Decides the kind of a line from its text after quote marks and indentation. `complete`: the line has ended.
Kind classify_text(std::string_view text, bool complete, LineStart& start) {
  if (text.empty()) return complete ? Kind::kParagraph : Kind::kUndecided;
  const char first = text[0];
  const size_t run = count_leading(text, first);
  const bool run_may_continue = run == text.size() && !complete;
  if (first == '|') return complete ? Kind::kTable : Kind::kUndecided;
  if (first == '#') {
    if (run_may_continue) return Kind::kUndecided;
    if (run > 6 || (run < text.size() && text[run] != ' ')) return Kind::kParagraph;
    start.level = run;
    start.length += std::min(run + 1, text.size());
    return Kind::kHeading;
  }
  if (first == '`' || first == '~') {
    if (run_may_continue) return Kind::kUndecided;
    if (run < 3) return Kind::kParagraph;
    if (!complete) return Kind::kUndecided;  // the rest of the line is the language
    const bool is_span = first == '`' && text.find('`', run) != std::string_view::npos;
    return is_span ? Kind::kParagraph : Kind::kFence;
  }
  if (first == '-' || first == '*' || first == '+' || first == '_') {
    if (first != '+' && all_of_set(text, std::string{first, ' '})) {
      if (!complete) return Kind::kUndecided;
      if (std::ranges::count(text, first) >= 3) return Kind::kRule;
    }
    if (text.size() == 1 && !complete) return Kind::kUndecided;
    if (first == '_' || text.size() < 2 || text[1] != ' ') return Kind::kParagraph;
    start.marker = "•";
    start.length += 2;
    return Kind::kItem;
  }
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits > 0 && digits <= kMaxNumberDigits) {
    if (text.size() < digits + 2 && !complete) return Kind::kUndecided;
    if (text.size() >= digits + 2 && (text[digits] == '.' || text[digits] == ')') &&
        text[digits + 1] == ' ') {
      start.marker = text.substr(0, digits + 1);
      start.length += digits + 2;
      return Kind::kItem;
    }
  }
  return Kind::kParagraph;
}

LineStart classify(std::string_view line, bool complete) {
  LineStart start;
  size_t pos = 0;
  while (true) {
    const size_t spaces = count_leading(line.substr(pos), ' ');
    pos += spaces;
    start.indent = spaces;
    if (pos == line.size() && !complete) return {};
    if (pos == line.size() || line[pos] != '>') break;
    ++start.quote_depth;
    ++pos;
    if (pos == line.size() && !complete) return {};
    if (pos < line.size() && line[pos] == ' ') ++pos;
  }
  start.length = pos;
  start.kind = classify_text(line.substr(pos), complete, start);
  return start;
}

std::string repeated(std::string_view text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

}  // namespace

std::string MarkdownRenderer::feed(std::string_view text) {
  const std::string clean = without_controls(text);
  std::string_view left = clean;
  while (!left.empty()) left.remove_prefix(take(left));
  return std::exchange(out_, {});
}

std::string MarkdownRenderer::finish() {
  if (state_ == State::kInline || !line_.empty()) (void)take("\n");
  if (state_ == State::kFenced) writer_.end_line();
  flush_table();
  state_ = State::kLineStart;
  return std::exchange(out_, {});
}

size_t MarkdownRenderer::take(std::string_view text) {
  const size_t newline = text.find('\n');
  if (state_ == State::kLineStart || state_ == State::kFencedStart) {
    const bool complete = newline == 0;
    if (!complete) line_ += text[0];
    // A character of several bytes decides only as a whole.
    const size_t num_bytes = complete ? 1 : character_bytes(text);
    if (!complete) line_.append(text.substr(1, num_bytes - 1));
    if (state_ == State::kLineStart) {
      start_line(complete);
    } else {
      start_code_line(complete);
    }
    return num_bytes;
  }
  const std::string_view chunk = text.substr(0, newline);
  if (state_ == State::kInline) {
    write_inline(chunk);
    if (newline != std::string_view::npos) end_inline();
  } else {
    writer_.write_verbatim({std::string(chunk), kCode});
    if (newline != std::string_view::npos) {
      writer_.end_line();
      state_ = State::kFencedStart;
    }
  }
  return newline == std::string_view::npos ? text.size() : newline + 1;
}

void MarkdownRenderer::start_line(bool complete) {
  const LineStart start = classify(line_, complete);
  if (start.kind == Kind::kUndecided) return;
  if (start.kind == Kind::kTable) {
    table_.push_back(std::exchange(line_, {}));
    return;
  }
  flush_table();
  const std::string quote = repeated("│ ", start.quote_depth);
  const std::string indent(start.indent, ' ');
  switch (start.kind) {
    case Kind::kHeading:
      start_paragraph({quote}, {quote}, start.length, start.level == 1 ? kBold | kUnderline : kBold,
                      complete);
      break;
    case Kind::kItem: {
      const std::string marker = indent + std::string(start.marker) + " ";
      const auto width = static_cast<size_t>(display_width(marker));
      start_paragraph({quote + marker}, {quote + std::string(width, ' ')}, start.length, 0, complete);
      break;
    }
    case Kind::kRule:
      writer_.begin_line({quote}, {});
      writer_.write_verbatim({repeated("─", static_cast<size_t>(std::min(kRuleWidth, width_))), kDim});
      writer_.end_line();
      line_.clear();
      break;
    case Kind::kFence:
      open_fence(line_, line_[start.length]);
      break;
    default:
      start_paragraph({quote + indent}, {quote + indent}, start.length, 0, complete);
  }
}

void MarkdownRenderer::start_paragraph(const Span& prefix, const Span& continuation, size_t num_bytes,
                                       Style style, bool complete) {
  inline_ = InlineParser(style);
  writer_.begin_line(prefix, continuation);
  state_ = State::kInline;
  const std::string text = std::exchange(line_, {}).substr(num_bytes);
  write_inline(text);
  if (complete) end_inline();
}

void MarkdownRenderer::open_fence(std::string_view line, char mark) {
  fence_mark_ = mark;
  fence_length_ = count_leading(line.substr(line.find(mark)), mark);
  writer_.begin_line({}, {});
  writer_.write_verbatim({std::string(line), kDim});
  writer_.end_line();
  line_.clear();
  state_ = State::kFencedStart;
}

void MarkdownRenderer::start_code_line(bool complete) {
  const size_t begin = std::min(line_.find_first_not_of(" \t>"), line_.size());
  const size_t run =
      begin == line_.size() ? 0 : count_leading(std::string_view(line_).substr(begin), fence_mark_);
  const bool rest_is_blank = all_of_set(std::string_view(line_).substr(begin + run), " \t");
  const bool closes = run >= fence_length_ && rest_is_blank;
  const bool may_close = begin + run == line_.size() || closes;
  if (!complete && may_close) return;
  writer_.begin_line({}, {});
  writer_.write_verbatim({std::exchange(line_, {}), closes ? kDim : kCode});
  state_ = State::kFenced;
  if (!complete) return;
  writer_.end_line();
  state_ = closes ? State::kLineStart : State::kFencedStart;
}

void MarkdownRenderer::write_inline(std::string_view text) {
  std::vector<Span> spans;
  inline_.feed(text, spans);
  for (const Span& span : spans) writer_.write(span);
}

void MarkdownRenderer::end_inline() {
  std::vector<Span> spans;
  inline_.finish(spans);
  for (const Span& span : spans) writer_.write(span);
  writer_.end_line();
  state_ = State::kLineStart;
}

void MarkdownRenderer::flush_table() {
  if (table_.empty()) return;
  const std::vector<std::string> lines = std::exchange(table_, {});
  const std::string rendered = render_table(lines, width_);
  if (!rendered.empty()) {
    out_ += rendered;
    return;
  }
  for (const std::string& line : lines) {
    InlineParser parser;
    std::vector<Span> spans;
    parser.feed(line, spans);
    parser.finish(spans);
    writer_.begin_line({}, {});
    for (const Span& span : spans) writer_.write(span);
    writer_.end_line();
  }
}

}  // namespace quire::cli
