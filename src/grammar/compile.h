// Compiles grammars into constraints.
#pragma once

#include <memory>

#include "base/error.h"
#include "contract/output_constraint.h"
#include "grammar/grammar.h"
#include "grammar/limits.h"
#include "grammar/token_table.h"

namespace quire::grammar {

// Any thread; takes at most limits.steps. The failure names the rule that is too large.
// Tokens that the grammar names (Symbol::Kind::kToken) match no text within this constraint, even if the
// tokenizer does not mark them as special.
Result<std::shared_ptr<const OutputConstraint>> compile(const Grammar& grammar,
                                                        std::shared_ptr<const TokenTable> tokens,
                                                        const Limits& limits = {});

}  // namespace quire::grammar
