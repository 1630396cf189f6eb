// Sets of characters that regular expressions and grammars name: \d, \w, \s and properties such as \p{Lu}.
// The free functions have no state and are thread-safe.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/memory_budget.h"
#include "grammar/regular.h"

namespace quire::grammar {

// Ranges in any order, which may overlap.
using CharacterSet = std::vector<CharacterRange>;

// The meaning of \d, \w and \s.
enum class ClassStyle : uint8_t {
  kEcmaScript,  // [0-9], [A-Za-z0-9_], and ECMA-262's white space and line terminators
  kAscii,       // Python's re.ASCII: [0-9], [A-Za-z0-9_], [ \t\n\r\f\v]
  kUnicode,     // Python without re.ASCII: decimal digits (Nd), letters, numbers and _, and str.isspace
};

// The class of `letter`, which is one of d, w, s, and of D, W, S for the complements.
CharacterSet class_escape(char letter, ClassStyle style);

// The characters with a Unicode property, by its short or long name: a general category, alone or after
// "General_Category=" or "gc="; Any, ASCII, Assigned and White_Space. Nothing for other names.
std::optional<CharacterSet> property_set(std::string_view name);

void append_set(CharacterSet& set, const CharacterSet& other);
CharacterSet complement_set(CharacterSet set);

// Adds the other case of all ASCII letters in the set.
void fold_ascii_case(CharacterSet& set);

// How one character out of the ranges is written, such as `characters`.
using CharacterEncoding = std::function<Regular(std::span<const CharacterRange>)>;

// The languages of sets of characters. Sets that occur several times share one expression. Owned by the
// parser of one specification.
class CharacterLanguages {
 public:
  // An empty `encode` stands for UTF-8. The budget outlives this object.
  CharacterLanguages(CharacterEncoding encode, MemoryBudget& budget)
      : encode_(std::move(encode)), budget_(budget) {}

  // Nothing, and an exceeded budget, if the set is too large.
  Regular of(const CharacterSet& set);
  Regular of(char32_t character) { return of({{character, character}}); }

 private:
  CharacterEncoding encode_;
  MemoryBudget& budget_;
  std::map<std::vector<std::pair<char32_t, char32_t>>, Regular> languages_;
};

}  // namespace quire::grammar
