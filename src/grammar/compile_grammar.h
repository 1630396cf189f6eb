// Turns a grammar into the form that the parser reads: lexemes become automata, and whatever derives nothing
// is removed, so that no state of the parser is a dead end.
#pragma once

#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/limits.h"
#include "grammar/parser.h"
#include "grammar/token_table.h"

namespace quire::grammar {

// Bytes that no token has are removed from all lexemes: text with them could not be written. Fails if a limit
// is exceeded, if an id is out of range, or if the grammar has no sentence.
Result<CompiledGrammar> compile_grammar(const Grammar& grammar, const TokenTable& tokens,
                                        const Limits& limits);

}  // namespace quire::grammar
