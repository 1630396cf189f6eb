// Questions about regular languages while a schema is translated: is a text in it, is it empty, which are its
// texts. Answers are exact as long as the budget lasts. Used by one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/automaton_expressions.h"
#include "grammar/limits.h"
#include "grammar/regular.h"

namespace quire::grammar {

class LanguageQueries {
 public:
  explicit LanguageQueries(const Limits& limits) : budget_(limits), expressions_(budget_) {}

  // Whether too much was spent: all answers since then are without value.
  bool failed() const { return expressions_.failed(); }

  bool contains(const Regular& language, std::string_view text);
  bool is_empty(const Regular& language);
  // All texts, if they are at most `limit`.
  std::optional<std::vector<std::string>> texts(const Regular& language, size_t limit);

 private:
  struct Entry {
    Regular keep_alive;
    ExpressionId id = 0;
    ByteClasses classes;
    std::optional<bool> empty;
  };
  Entry& entry(const Regular& language);
  // The classes of this language's derivatives are in use.
  Entry& use(const Regular& language);

  Budget budget_;
  Expressions expressions_;
  std::unordered_map<const RegularNode*, Entry> entries_;
  const Entry* used_ = nullptr;
};

}  // namespace quire::grammar
