// Languages of short strings as sets, computed from their definition: what the parser is compared with.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "grammar/grammar.h"

namespace quire::grammar {

// The strings of up to kLength symbols; a symbol is 'a', 'b' or the special token 'T'.
class ShortStrings {
 public:
  static constexpr size_t kLength = 6;
  static constexpr char kSymbols[] = {'a', 'b', 'T'};
  using Set = std::vector<bool>;  // by index

  ShortStrings();
  const std::vector<std::string>& all() const { return strings_; }
  static size_t index_of(std::string_view text);
  // All sentences of a grammar.
  Set sentences(const Grammar& grammar) const;
  // Strings that start one of the set.
  Set prefixes(const Set& set) const;

 private:
  Set strings_of(const Regular& regular) const;
  Set concat(const Set& a, const Set& b) const;
  Set empty_text() const;

  std::vector<std::string> strings_;  // sorted by length
  struct Split {
    uint32_t first, second;
  };
  std::vector<std::vector<Split>> splits_;  // splits of each string
};

// A random grammar over 'a', 'b' and the token `special`.
Grammar random_grammar(std::mt19937& random, TokenId special);

}  // namespace quire::grammar
