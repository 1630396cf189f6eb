// The lexemes of JSON text. A string has a content (what it means: UTF-8 without surrogates) and a body (how
// it is spelled between the quotes); languages of contents are what schemas speak about, and json_string()
// turns them into spellings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/regular.h"

namespace quire::grammar {

enum class JsonSpacing {
  kFree,     // between tokens: nothing, one blank, or a line break and at most 64 blanks
  kSpaced,   // ", " between members and ": " after a key, nothing else
  kCompact,  // no white space
};

// Contents: any string, and strings of `min` to `max` characters.
Regular any_content();
Regular content_of_length(uint32_t min, uint32_t max);
// Exactly one of these texts. Shares common beginnings, so many texts cost no more than their bytes.
Regular any_text(std::vector<std::string> texts);

// The JSON strings, with quotes, whose content is in `content`. Spellings: control characters, quotes and
// backslashes are escaped (\n or \u000a), "/" may be. Where any character may stand, it may also be written
// with any escape, outside of the basic plane as a pair of surrogates; all other characters are written as
// themselves. Every content has at least one spelling, and no spelling has two contents.
Regular json_string(const Regular& content);

// White space where JSON allows it.
Regular json_space(JsonSpacing spacing);
// "," and ":" with the white space around them.
Regular json_comma(JsonSpacing spacing);
Regular json_colon(JsonSpacing spacing);

}  // namespace quire::grammar
