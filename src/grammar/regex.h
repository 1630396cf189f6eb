// Regular expressions as regular languages: the `pattern` of JSON Schema and the `regex` of requests.
// Look-ahead and anchors are translated exactly. Everything that is not a regular language, or that is not
// supported, is refused with its position. Thread-safe.
#pragma once

#include <string_view>

#include "base/error.h"
#include "grammar/character_set.h"
#include "grammar/limits.h"
#include "grammar/regular.h"

namespace quire::grammar {

struct RegexOptions {
  // Both dialects accept what the other has if it cannot mean anything else, for example (?P<name>...) and
  // \p{Lu}. They differ in:
  //                     kEcmaScript (flag u)                  kPython (flag re.ASCII)
  //   \d \w             ASCII                                 ASCII; Unicode after (?u)
  //   \s                ECMA-262's white space                [ \t\n\r\f\v]; str.isspace after (?u)
  //   .                 no \n, \r, U+2028, U+2029             no \n
  //   $                 the end                               the end, or before a last \n
  //   \A \Z \a \101     refused                               start, end, bell, octal
  //   \cX \u{...}       control, code point                   refused
  //   [] [^]            nothing, any character                ] is the first character of the class
  //   x{,n}             refused                               at most n times
  //   (?i)              as the flags iu                       ASCII letters
  enum class Dialect : uint8_t { kEcmaScript, kPython };
  Dialect dialect = Dialect::kEcmaScript;
  // False: the language is the texts that match as a whole. True: the texts in which some part matches.
  bool search = false;
  // How one character out of the ranges is written; `characters` (UTF-8) if empty. A front end can pass the
  // escaped forms within a JSON string.
  CharacterEncoding encode;
  Limits limits;
};

// The language of `pattern`, which may be nothing(). A failure's message starts with "byte N: ", the offset
// within the pattern.
Result<Regular> parse_regex(std::string_view pattern, const RegexOptions& options = {});

}  // namespace quire::grammar
