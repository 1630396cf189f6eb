// Expressions that text grammars and structural tags are parsed into, and their translation into rules and
// lexemes. Parts that do not refer to recursive rules become lexemes. Plain data, owned by the front end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/limits.h"
#include "grammar/memory_budget.h"

namespace quire::grammar {

struct Expression {
  enum class Kind : uint8_t {
    kLanguage,   // a string of `language`
    kSymbol,     // `symbol`, which belongs to the grammar already
    kReference,  // a sentence of rules[reference]
    kSequence,   // parts[0], then parts[1], ...; the empty text without parts
    kChoice,     // one of the parts
    kRepeat,     // parts[0], min to max times
  };
  Kind kind = Kind::kSequence;
  Regular language;
  // About the number of states of `language`, if it may become a part of longer lexemes. 0 = it stays a
  // lexeme of its own.
  size_t size = 0;
  Symbol symbol;
  size_t reference = 0;
  std::vector<Expression> parts;
  uint32_t min = 0;
  uint32_t max = 0;
};

Expression language_expression(Regular language, size_t size);
Expression symbol_expression(Symbol symbol);
Expression sequence_expression(std::vector<Expression> parts);
Expression choice_expression(std::vector<Expression> parts);
Expression repeat_expression(Expression part, uint32_t min, uint32_t max = RegularNode::kUnlimited);

struct NamedExpression {
  std::string name;
  Expression body;
};

// Adds the rules that rules[start] needs, and returns the symbol of rules[start]. References are indexes into
// `rules`. Fails if there are more rules and lexemes than the limits allow; the message has no position.
Result<Symbol> add_expressions(Grammar& grammar, const std::vector<NamedExpression>& rules, size_t start,
                               const Limits& limits, MemoryBudget& budget);

// The grammar whose sentences are those of `symbol`.
void set_start(Grammar& grammar, Symbol symbol);

}  // namespace quire::grammar
