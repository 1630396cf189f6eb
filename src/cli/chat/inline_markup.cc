#include "cli/chat/inline_markup.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace quire::cli {
namespace {

// A delimiter whose counterpart does not follow within this distance is literal, so that the text continues
// to appear.
constexpr size_t kMaxHeld = 400;
constexpr int kMaxDepth = 8;

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || (static_cast<unsigned char>(c) & 0x80U) != 0;
}
bool is_punctuation(char c) {
  return std::ispunct(static_cast<unsigned char>(c)) != 0;
}

size_t run_length(std::string_view text, size_t pos) {
  const size_t end = text.find_first_not_of(text[pos], pos);
  return (end == std::string_view::npos ? text.size() : end) - pos;
}

void append(std::vector<Span>& spans, std::string_view text, Style style) {
  if (text.empty()) return;
  if (spans.empty() || spans.back().style != style) spans.push_back({{}, style});
  spans.back().text += text;
}

// One construct at a position of a line.
struct Match {
  size_t length = 0;   // bytes of the construct; 0 = the text is not complete enough to decide
  bool found = false;  // otherwise the first `length` bytes are literal
};
constexpr Match kUndecidedMatch{};

class LineParser {
 public:
  LineParser(std::string_view text, char previous, bool complete, int depth, std::vector<Span>& spans)
      : text_(text), previous_(previous), complete_(complete), depth_(depth), spans_(spans) {}

  // Returns the number of bytes that were parsed.
  size_t parse(Style style) {
    size_t pos = 0;
    while (pos < text_.size()) {
      const size_t special = std::min(text_.find_first_of("\\`*_~[", pos), text_.size());
      append(spans_, text_.substr(pos, special - pos), style);
      pos = special;
      if (pos == text_.size()) break;
      const Match match = construct(pos, style);
      if (match.length == 0) return pos;
      if (!match.found) append(spans_, text_.substr(pos, match.length), style);
      pos += match.length;
    }
    return pos;
  }

 private:
  Match construct(size_t pos, Style style) {
    switch (text_[pos]) {
      case '\\':
        return escape(pos, style);
      case '`':
        return code(pos, style);
      case '[':
        return link(pos, style);
      default:
        return emphasis(pos, style);
    }
  }

  Match undecided_or_literal(size_t pos, size_t length) const {
    const bool may_follow = !complete_ && text_.size() - pos < kMaxHeld;
    return may_follow ? kUndecidedMatch : Match{length, false};
  }

  Match escape(size_t pos, Style style) {
    if (pos + 1 == text_.size()) return undecided_or_literal(pos, 1);
    if (!is_punctuation(text_[pos + 1])) return {1, false};
    append(spans_, text_.substr(pos + 1, 1), style);
    return {2, true};
  }

  // The end of the code span whose opening backticks are at `pos`.
  std::optional<size_t> code_end(size_t pos) const {
    const size_t ticks = run_length(text_, pos);
    size_t at = pos + ticks;
    while ((at = text_.find('`', at)) != std::string_view::npos) {
      const size_t run = run_length(text_, at);
      if (run == ticks && (complete_ || at + run < text_.size())) return at + run;
      at += run;
    }
    return std::nullopt;
  }

  Match code(size_t pos, Style style) {
    const size_t ticks = run_length(text_, pos);
    const auto end = code_end(pos);
    if (!end) return undecided_or_literal(pos, ticks);
    std::string_view inside = text_.substr(pos + ticks, *end - pos - 2 * ticks);
    const bool padded = inside.size() > 2 && inside.front() == ' ' && inside.back() == ' ';
    if (padded) inside = inside.substr(1, inside.size() - 2);
    append(spans_, inside, style | kCode);
    return {*end - pos, true};
  }

  Match link(size_t pos, Style style) {
    size_t depth = 0;
    size_t close = pos;
    for (; close < text_.size(); ++close) {
      if (text_[close] == '\\') {
        ++close;
      } else if (text_[close] == '[') {
        ++depth;
      } else if (text_[close] == ']' && --depth == 0) {
        break;
      }
    }
    if (close + 1 >= text_.size()) return undecided_or_literal(pos, 1);
    if (text_[close + 1] != '(') return {1, false};
    const size_t end = text_.find_first_of(") ", close + 2);
    if (end == std::string_view::npos) return undecided_or_literal(pos, 1);
    // A title may follow the address after a space.
    const size_t last = text_[end] == ')' ? end : text_.find(')', end);
    if (last == std::string_view::npos) return undecided_or_literal(pos, 1);
    const std::string_view label = text_.substr(pos + 1, close - pos - 1);
    const std::string_view address = text_.substr(close + 2, end - close - 2);
    nested(label, style | kUnderline);
    if (label != address) {
      append(spans_, " (", style | kDim);
      append(spans_, address, style | kDim);
      append(spans_, ")", style | kDim);
    }
    return {last + 1 - pos, true};
  }

  Match emphasis(size_t pos, Style style) {
    const char mark = text_[pos];
    const size_t run = run_length(text_, pos);
    if (pos + run == text_.size()) return undecided_or_literal(pos, run);  // the run may continue
    const char before = pos == 0 ? previous_ : text_[pos - 1];
    const bool opens = !is_blank(text_[pos + run]) && !(mark == '_' && is_word(before));
    const bool known = mark == '~' ? run == 2 : run <= 3;
    if (!opens || !known) return {run, false};
    const auto close = closing_run(pos + run, mark, run);
    if (!close) return undecided_or_literal(pos, run);
    static constexpr Style kStyles[] = {0, kItalic, kBold, kBold | kItalic};
    nested(text_.substr(pos + run, *close - pos - run), style | (mark == '~' ? kStrike : kStyles[run]));
    return {*close + run - pos, true};
  }

  // The position of a run of exactly `run` marks that closes a span.
  std::optional<size_t> closing_run(size_t begin, char mark, size_t run) const {
    for (size_t at = begin; at < text_.size();) {
      if (text_[at] == '\\') {
        at += 2;
      } else if (text_[at] == '`') {
        at = code_end(at).value_or(at + run_length(text_, at));
      } else if (text_[at] == mark) {
        const size_t length = run_length(text_, at);
        const size_t next = at + length;
        if (next == text_.size() && !complete_) return std::nullopt;  // the run may continue
        const bool inside_word = mark == '_' && next < text_.size() && is_word(text_[next]);
        // A longer run closes two spans, the inner one first: **a *b***
        const bool fits = length == run || (length == 3 && run < 3);
        if (fits && !is_blank(text_[at - 1]) && !inside_word) return next - run;
        at = next;
      } else {
        ++at;
      }
    }
    return std::nullopt;
  }

  void nested(std::string_view inside, Style style) {
    if (depth_ == kMaxDepth) {
      append(spans_, inside, style);
    } else {
      LineParser(inside, ' ', true, depth_ + 1, spans_).parse(style);
    }
  }

  std::string_view text_;
  char previous_;
  bool complete_;
  int depth_;
  std::vector<Span>& spans_;
};

}  // namespace

void InlineParser::parse(bool complete, std::vector<Span>& spans) {
  const size_t parsed = LineParser(held_, previous_, complete, 0, spans).parse(style_);
  if (parsed > 0) previous_ = held_[parsed - 1];
  held_.erase(0, parsed);
}

void InlineParser::feed(std::string_view text, std::vector<Span>& spans) {
  held_ += text;
  parse(false, spans);
}

void InlineParser::finish(std::vector<Span>& spans) {
  parse(true, spans);
  previous_ = ' ';
}

}  // namespace quire::cli
