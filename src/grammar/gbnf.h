// GBNF, the text grammars of llama.cpp, and the EBNF of xgrammar, which SGLang and vLLM accept: rules of the
// form
//   root ::= "a" [b-z]* (item | <token>){1,3}   # a comment
// The output is a sentence of the rule `root`. Rules may be recursive, also on the left. The attributes,
// look-ahead and macros of xgrammar, and !<token> of llama.cpp are refused. Thread-safe.
#pragma once

#include <string_view>

#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/limits.h"
#include "grammar/special_tokens.h"

namespace quire::grammar {

struct GbnfOptions {
  SpecialTokens tokens;
  Limits limits;
};

// Adds the rules of a text grammar and returns the symbol of `root`. A failure's message starts with
// "line L, column C: ", both from 1.
Result<Symbol> add_gbnf(Grammar& grammar, std::string_view source, const GbnfOptions& options = {});

Result<Grammar> parse_gbnf(std::string_view source, const GbnfOptions& options = {});

}  // namespace quire::grammar
