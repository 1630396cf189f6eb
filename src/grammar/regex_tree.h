// The syntax tree of a regular expression: parts without anchors and look-ahead are regular languages
// already. regex_language() translates the rest. Plain data, owned by the parser of one expression.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "grammar/memory_budget.h"
#include "grammar/regular.h"

namespace quire::grammar {

struct RegexNode {
  enum class Kind : uint8_t {
    kPlain,         // `language`
    kStart,         // nothing comes before
    kEnd,           // nothing follows
    kEndOrNewline,  // nothing or a last \n follows
    kConcat,
    kUnion,
    kRepeat,    // parts[0], at least once if `min` is 1, without an upper limit
    kAhead,     // parts[0] follows
    kNotAhead,  // parts[0] does not follow
  };
  Kind kind = Kind::kPlain;
  // Without kEnd, kEndOrNewline and look-ahead: the strings that match after other text, where `^` fails.
  Regular language;
  std::vector<RegexNode> parts;
  uint32_t min = 0;
  // Whether a match depends on the text that follows it.
  bool looks_ahead = false;
};

RegexNode plain_node(Regular language);
// An assertion; `parts` is the content of a look-ahead.
RegexNode assertion_node(RegexNode::Kind kind, std::vector<RegexNode> parts = {});
RegexNode concat_node(std::vector<RegexNode> parts);
RegexNode union_node(std::vector<RegexNode> parts);
// parts[0] min to max times. Nothing if a repeat of such a node is not supported.
std::optional<RegexNode> repeat_node(RegexNode part, uint32_t min, uint32_t max);

// The texts that the tree matches as a whole, or in which it matches a part if `search`. `any_text` is the
// language of all texts, `newline` that of the text "\n". Nothing if the budget is exceeded.
std::optional<Regular> regex_language(const RegexNode& tree, bool search, const Regular& any_text,
                                      const Regular& newline, MemoryBudget& budget);

}  // namespace quire::grammar
