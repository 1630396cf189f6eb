// The output is one of several texts: `choice` of requests. Thread-safe.
#pragma once

#include <span>
#include <string>

#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/limits.h"

namespace quire::grammar {

// A grammar of one lexeme. Fails without choices, and if they are not UTF-8 or too long together. The message
// names the index of a choice.
Result<Grammar> parse_choice(std::span<const std::string> choices, const Limits& limits = {});

}  // namespace quire::grammar
