// The form that all front ends (JSON Schema, regular expressions, EBNF and GBNF, structural tags, tool calls)
// produce and that grammar/compile.h turns into an OutputConstraint: context-free rules over lexemes. A
// lexeme is a regular language, so everything without recursion belongs into lexemes, which are cheaper than
// rules. Plain data, owned by the caller of a front end.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "contract/ids.h"
#include "grammar/regular.h"

namespace quire::grammar {

// A part of an alternative.
struct Symbol {
  enum class Kind : uint8_t {
    kLexeme,  // a string of lexemes[id]
    kRule,    // a sentence of rules[id]
    kToken,   // the special token `id` itself, which no text matches
  };
  Kind kind = Kind::kLexeme;
  int32_t id = 0;

  bool operator==(const Symbol&) const = default;
};

// A rule derives any of its alternatives; an alternative is a sequence of symbols. An alternative without
// symbols is the empty text. A rule without alternatives derives nothing.
struct Rule {
  std::string name;  // for messages
  std::vector<std::vector<Symbol>> alternatives;
};

// The outputs are the sentences of rules[start]. Boundaries between lexemes have no meaning: the language is
// the set of byte strings (and special tokens), however ambiguous.
struct Grammar {
  std::vector<Regular> lexemes;
  std::vector<Rule> rules;
  int32_t start = 0;
  std::vector<std::string> ignored = {};  // JSON pointers of what has no effect in the specification
};

inline Symbol add_lexeme(Grammar& grammar, Regular lexeme) {
  grammar.lexemes.push_back(std::move(lexeme));
  return {Symbol::Kind::kLexeme, static_cast<int32_t>(grammar.lexemes.size()) - 1};
}
// A rule without alternatives yet, so that rules can refer to each other.
inline Symbol add_rule(Grammar& grammar, std::string name) {
  grammar.rules.push_back({std::move(name), {}});
  return {Symbol::Kind::kRule, static_cast<int32_t>(grammar.rules.size()) - 1};
}

}  // namespace quire::grammar
