// Reads the characters, escapes and classes of a regular expression, and has the position and the first
// error. The base of the parser of one expression; used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "grammar/character_set.h"

namespace quire::grammar {

// Flags that a group can change.
struct RegexFlags {
  bool ignore_case = false;
  bool dot_all = false;
  bool multi_line = false;
  ClassStyle classes = ClassStyle::kEcmaScript;
};

// An escape sequence or a character of the pattern.
struct RegexAtom {
  enum class Kind : uint8_t { kCharacter, kSet, kStart, kEnd };
  Kind kind = Kind::kCharacter;
  char32_t character = 0;
  CharacterSet set = {};
};

inline bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}
inline bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// After the first error all functions return default values, and the position is at the end.
class RegexScanner {
 protected:
  // The pattern is valid UTF-8.
  RegexScanner(std::string_view pattern, bool python);

  bool failed() const { return !message_.empty(); }
  bool at_end() const { return position_ >= pattern_.size(); }
  char peek(size_t offset = 0) const {
    return position_ + offset < pattern_.size() ? pattern_[position_ + offset] : '\0';
  }
  bool take(std::string_view text) {
    if (pattern_.substr(position_, text.size()) != text) return false;
    position_ += text.size();
    return true;
  }
  char32_t take_character();
  void fail(size_t position, std::string_view message);

  // A backslash and what belongs to it.
  RegexAtom parse_escape(bool in_class);
  // [...], with the complement of a negated class.
  CharacterSet parse_class();
  // Adds the characters that are equal to one of the set, if the flag i is set.
  void fold_case(size_t begin, CharacterSet& set);

  std::string_view pattern_;
  bool python_;
  RegexFlags flags_;
  size_t position_ = 0;
  std::string message_;  // the first error, empty so far

 private:
  RegexAtom parse_letter_escape(size_t begin, char letter, bool in_class);
  RegexAtom parse_octal(size_t begin, bool in_class);
  RegexAtom parse_property(size_t begin, bool negated);
  char32_t parse_hex(size_t begin, int digits);
  char32_t parse_unicode_escape(size_t begin);
  RegexAtom class_atom(char letter) const;
  void parse_class_item(CharacterSet& set);
  // Limits what escapes of few bytes add to classes.
  void count_ranges(size_t position, size_t count);

  size_t ranges_ = 0;  // in the sets of all escapes
};

}  // namespace quire::grammar
