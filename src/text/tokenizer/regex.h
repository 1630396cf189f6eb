// A compiled regular expression with the semantics of the reference's engine (Oniguruma, Ruby syntax, Unicode
// 16), executed by PCRE2's JIT.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace quire::tokenizer {

// Immutable after compile(); thread-safe.
class Regex {
 public:
  // Throws Error with `where` if the pattern is not a valid regular expression.
  static Regex compile(std::string_view pattern, const std::string& where);

  // A search over a text. Not thread-safe; create one per use.
  class Search {
   public:
    Search(const Regex& regex, std::string_view text);  // text: valid UTF-8
    ~Search();
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;
    // Finds the next match after the last one. Returns false at the end, or if a pattern with excessive
    // backtracking exceeds its step limit; the rest of the text is then treated as not matching.
    bool next(size_t* begin, size_t* end);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

// Translates the pattern to PCRE2 syntax: \s, \d, \w and \p{..} match the characters of Unicode 16, and \h
// matches a hexadecimal digit.
std::string translate_regex(std::string_view pattern);

}  // namespace quire::tokenizer
