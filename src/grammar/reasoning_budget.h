// A limit on the length of the reasoning in an output: when it is used up, the marker that ends reasoning is
// the only thing that can follow. The rest of the output obeys another constraint, or none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "contract/ids.h"
#include "contract/output_constraint.h"
#include "text/output/output_parser.h"

namespace quire::grammar {

struct ReasoningBudget {
  int32_t tokens = 0;           // of reasoning, without markers that are tokens
  OutputParserOptions reading;  // how the output is read, with a format of reasoning
  std::vector<TokenId> end;     // the tokens of the marker that ends reasoning; at least one
  // The bytes that a token adds to the output; "" for special tokens.
  std::function<std::string(TokenId)> text_of;
};

// within: the constraint on the whole output, of which reasoning is a part; null for none. Reasoning that
// ends within a character is continued by at most three tokens. Where `within` does not let it end, it goes
// on. The states are as those of `within`, except that clone() and rollback() read the output again while
// more reasoning can come.
SharedConstraint limit_reasoning(ReasoningBudget budget, SharedConstraint within);

}  // namespace quire::grammar
