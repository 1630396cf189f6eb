// A compiled regular expression with the meaning that the reference's engine (Oniguruma, Ruby syntax, Unicode
// 16) gives it, run by PCRE2's JIT.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace quire::tokenizer {

// Immutable after compile(); any thread may search with it.
class Regex {
 public:
  // Throws Error naming `where` when the pattern is not a regular expression.
  static Regex compile(std::string_view pattern, const std::string& where);

  // One search over a text. Not thread safe; make one for each use.
  class Search {
   public:
    Search(const Regex& regex, std::string_view text);  // text: valid UTF-8
    ~Search();
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;
    // Finds the next match, not overlapping the last. False at the end, and when a pattern that backtracks
    // without end has used up its step limit: the rest of the text then counts as not matching.
    bool next(size_t* begin, size_t* end);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

// The pattern in PCRE2's syntax: \s, \d, \w and \p{..} take the members that Unicode 16 gives them, \h is a
// hexadecimal digit.
std::string translate_regex(std::string_view pattern);

// The text with everything that has a meaning in a regular expression escaped.
std::string escape_regex(std::string_view literal);

}  // namespace quire::tokenizer
