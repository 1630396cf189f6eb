#include "grammar/regex_scanner.h"

#include <array>
#include <string>
#include <utility>

#include "base/hex.h"
#include "base/strings.h"
#include "text/unicode/unicode.h"

namespace quire::grammar {
namespace {

bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

}  // namespace

RegexScanner::RegexScanner(std::string_view pattern, bool python) : pattern_(pattern), python_(python) {
  flags_.classes = python ? ClassStyle::kAscii : ClassStyle::kEcmaScript;
}

void RegexScanner::fail(size_t position, std::string_view message) {
  if (failed()) return;
  message_ = cat("byte ", position, ": ", message);
  position_ = pattern_.size();
}

void RegexScanner::count_ranges(size_t position, size_t count) {
  constexpr size_t kMaxRanges = 1'000'000;
  ranges_ += count;
  if (ranges_ > kMaxRanges) fail(position, "there are too many large classes");
}

char32_t RegexScanner::take_character() {
  size_t length = 0;
  const char32_t c = unicode::decode(pattern_.data() + position_, &length);
  position_ += length;
  return c;
}

// ---- Escapes ----

RegexAtom RegexScanner::class_atom(char letter) const {
  RegexAtom atom{.kind = RegexAtom::Kind::kSet, .set = class_escape(letter, flags_.classes)};
  // With the flags iu, ECMA-262's \w has the characters whose other case is a word character.
  if (flags_.ignore_case && !python_ && (letter == 'w' || letter == 'W')) {
    CharacterSet word = class_escape('w', flags_.classes);
    append_set(word, {{0x17F, 0x17F}, {0x212A, 0x212A}});
    atom.set = letter == 'w' ? std::move(word) : complement_set(std::move(word));
  }
  return atom;
}

RegexAtom RegexScanner::parse_escape(bool in_class) {
  const size_t begin = position_;
  ++position_;
  if (at_end()) {
    fail(begin, "the escape \\ at the end is not complete");
    return {};
  }
  const char c = peek();
  if (is_ascii_digit(c)) return parse_octal(begin, in_class);
  if (!is_ascii_letter(c)) return {.character = take_character()};
  ++position_;
  return parse_letter_escape(begin, c, in_class);
}

RegexAtom RegexScanner::parse_letter_escape(size_t begin, char letter, bool in_class) {
  struct Control {
    char letter;
    char32_t character;
  };
  static constexpr std::array<Control, 5> kControls = {
      {{'t', '\t'}, {'n', '\n'}, {'r', '\r'}, {'f', '\f'}, {'v', '\v'}}};
  for (const Control& control : kControls)
    if (control.letter == letter) return {.character = control.character};
  if (std::string_view("dwsDWS").find(letter) != std::string_view::npos) {
    RegexAtom atom = class_atom(letter);
    count_ranges(begin, atom.set.size());
    return atom;
  }
  switch (letter) {
    case 'p':
    case 'P':
      return parse_property(begin, letter == 'P');
    case 'x':
      return {.character = parse_hex(begin, 2)};
    case 'u':
      return {.character = parse_unicode_escape(begin)};
    case 'b':
      if (in_class) return {.character = '\b'};
      [[fallthrough]];
    case 'B':
      fail(begin, "word boundaries are not supported");
      return {};
    case 'k':
      fail(begin, "back-references are not supported");
      return {};
    case 'c':
      if (python_ || !is_ascii_letter(peek())) break;
      return {.character = static_cast<char32_t>(static_cast<uint8_t>(pattern_[position_++]) & 0x1F)};
    default:
      break;
  }
  if (python_) {
    if (letter == 'a') return {.character = '\a'};
    if (letter == 'U') return {.character = parse_hex(begin, 8)};
    if (!in_class && letter == 'A') return {.kind = RegexAtom::Kind::kStart, .set = {}};
    if (!in_class && (letter == 'Z' || letter == 'z')) return {.kind = RegexAtom::Kind::kEnd, .set = {}};
  }
  fail(begin, cat("unknown escape \\", std::string_view(&letter, 1)));
  return {};
}

RegexAtom RegexScanner::parse_octal(size_t begin, bool in_class) {
  if (python_) {
    // \0 and up to two more digits, or three digits.
    const bool three = is_octal(peek()) && is_octal(peek(1)) && is_octal(peek(2));
    if (peek() == '0' || three) {
      char32_t value = 0;
      for (int i = 0; i < 3 && is_octal(peek()); ++i)
        value = value * 8 + static_cast<char32_t>(pattern_[position_++] - '0');
      if (value > 0377) fail(begin, "an octal escape is above \\377");
      return {.character = value};
    }
  } else if (peek() == '0' && !is_ascii_digit(peek(1))) {
    ++position_;
    return {.character = 0};
  }
  fail(begin, in_class || peek() == '0' ? "unknown escape" : "back-references are not supported");
  return {};
}

RegexAtom RegexScanner::parse_property(size_t begin, bool negated) {
  const size_t end = peek() == '{' ? pattern_.find('}', position_) : std::string_view::npos;
  if (end == std::string_view::npos) {
    fail(begin, "a property needs a name in braces, as in \\p{Lu}");
    return {};
  }
  const std::string_view name = pattern_.substr(position_ + 1, end - position_ - 1);
  position_ = end + 1;
  auto set = property_set(name);
  if (!set) {
    fail(begin, "this property is not supported, only general categories such as \\p{Lu} are");
    return {};
  }
  if (flags_.ignore_case) {
    fail(begin, "properties with the flag i are not supported");
    return {};
  }
  count_ranges(begin, set->size());
  return {.kind = RegexAtom::Kind::kSet, .set = negated ? complement_set(std::move(*set)) : std::move(*set)};
}

char32_t RegexScanner::parse_hex(size_t begin, int digits) {
  char32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const int digit = hex_value(peek());
    if (digit < 0) {
      fail(begin, cat("an escape needs ", digits, " hexadecimal digits"));
      return 0;
    }
    value = value * 16 + static_cast<char32_t>(digit);
    ++position_;
  }
  if (value > 0x10FFFF) fail(begin, "an escape is above U+10FFFF");
  return value;
}

// After \u: four digits, two halves of a surrogate pair, or a number in braces.
char32_t RegexScanner::parse_unicode_escape(size_t begin) {
  char32_t value = 0;
  if (!python_ && take("{")) {
    const size_t first = position_;
    while (hex_value(peek()) >= 0 && value <= 0x10FFFF)
      value = value * 16 + static_cast<char32_t>(hex_value(pattern_[position_++]));
    if (value > 0x10FFFF) {
      fail(begin, "an escape is above U+10FFFF");
    } else if (position_ == first || !take("}")) {
      fail(begin, "the escape \\u{ needs hexadecimal digits and }");
    }
  } else {
    value = parse_hex(begin, 4);
    if (!python_ && value >= 0xD800 && value <= 0xDBFF && take("\\u")) {
      const char32_t low = parse_hex(begin, 4);
      if (low >= 0xDC00 && low <= 0xDFFF) return 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
    }
  }
  if (value >= 0xD800 && value <= 0xDFFF) fail(begin, "a surrogate alone is not a character");
  return value;
}

// ---- Classes ----

// [...]. The class is empty or negated as the dialect says.
CharacterSet RegexScanner::parse_class() {
  const size_t begin = position_;
  ++position_;
  const bool negated = take("^");
  CharacterSet set;
  bool closed = false;
  for (bool first = true; !failed() && !at_end(); first = false) {
    if (peek() == ']' && !(first && python_)) {
      ++position_;
      closed = true;
      break;
    }
    parse_class_item(set);
  }
  if (!closed) fail(begin, "missing ]");
  if (failed()) return {};
  if (negated) set = complement_set(std::move(set));
  return set;
}

void RegexScanner::parse_class_item(CharacterSet& set) {
  const auto parse_atom = [&]() -> RegexAtom {
    if (peek() == '\\') return parse_escape(true);
    return {.character = take_character()};
  };
  const size_t at = position_;
  const RegexAtom first = parse_atom();
  if (failed()) return;
  const bool is_range = peek() == '-' && position_ + 1 < pattern_.size() && peek(1) != ']';
  if (!is_range) {
    if (first.kind == RegexAtom::Kind::kSet) {
      append_set(set, first.set);
      return;
    }
    CharacterSet one = {{first.character, first.character}};
    fold_case(at, one);
    append_set(set, one);
    return;
  }
  ++position_;
  const RegexAtom last = parse_atom();
  if (failed()) return;
  if (first.kind == RegexAtom::Kind::kSet || last.kind == RegexAtom::Kind::kSet) {
    fail(at, "a range needs characters on both sides; write \\- for the character");
    return;
  }
  if (first.character > last.character) {
    fail(at, "the first character of a range is after the last");
    return;
  }
  CharacterSet range = {{first.character, last.character}};
  fold_case(at, range);
  append_set(set, range);
  return;
}

// Adds the characters that are equal without regard to case. Python with re.ASCII folds ASCII letters only;
// ECMA-262 also folds two others into k and s.
void RegexScanner::fold_case(size_t begin, CharacterSet& set) {
  if (!flags_.ignore_case) return;
  if (!python_) {
    for (const CharacterRange& range : set) {
      if (range.last >= 0x80)
        return fail(begin, "characters outside of ASCII are not supported with the flag i");
    }
  }
  fold_ascii_case(set);
  if (python_) return;
  const size_t size = set.size();
  for (size_t i = 0; i < size; ++i) {
    const CharacterRange range = set[i];
    if (range.first <= 'k' && 'k' <= range.last) set.push_back({0x212A, 0x212A});
    if (range.first <= 's' && 's' <= range.last) set.push_back({0x17F, 0x17F});
  }
}

}  // namespace quire::grammar
