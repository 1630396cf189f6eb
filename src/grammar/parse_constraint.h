// Front ends by kind of constraint.
#pragma once

#include "base/error.h"
#include "contract/sampling_params.h"
#include "grammar/grammar.h"
#include "grammar/limits.h"
#include "grammar/special_tokens.h"

namespace quire::grammar {

// The grammar of a specification. The failure states where it is wrong, or which part of it
// is not supported.
Result<Grammar> parse_constraint(const StructuredOutputs& spec, const SpecialTokens& tokens,
                                 const Limits& limits = {});

}  // namespace quire::grammar
