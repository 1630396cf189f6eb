// Slow and simple recognizers, which tests compare front ends and masks with. They follow the definitions in
// grammar/regular.h and grammar/grammar.h, without automata.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/regular.h"

namespace quire::grammar {

// An output: its bytes, and special tokens as kFirstToken + id.
using Output = std::vector<int32_t>;
inline constexpr int32_t kFirstToken = 256;
Output output_of(std::string_view text);

// Whether the text belongs to the language.
bool oracle_matches(const Regular& language, std::string_view text);

// Whether the output is a sentence of the grammar.
bool oracle_matches(const Grammar& grammar, const Output& output);
bool oracle_matches(const Grammar& grammar, std::string_view text);

}  // namespace quire::grammar
