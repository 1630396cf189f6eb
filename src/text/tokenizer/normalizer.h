// Normalization of a text before it is split: a list of steps, each for one entry of "normalizer".
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/json.h"
#include "text/tokenizer/regex.h"
#include "text/unicode/unicode.h"

namespace quire::tokenizer {

struct UnicodeForm {
  unicode::NormalForm form;
};
struct Lowercase {};
struct StripSpace {
  bool left, right;
};
struct StripAccents {};
struct BertNormalizer {
  bool clean_text, chinese_characters, strip_accents, lowercase;
};
struct ReplaceString {
  std::string pattern, content;
};
struct ReplaceRegex {
  Regex pattern;
  std::string content;
};
struct Prepend {
  std::string text;
};
struct Nmt {};
struct ByteCharacters {};  // each byte becomes its character in byte-level vocabularies
struct Precompiled {
  CharsMap map;
};

using NormalizerStep = std::variant<UnicodeForm, Lowercase, StripSpace, StripAccents, BertNormalizer,
                                    ReplaceString, ReplaceRegex, Prepend, Nmt, ByteCharacters, Precompiled>;
// The steps of a Sequence are inlined in the list.
using Normalizer = std::vector<NormalizerStep>;

// Reads the "normalizer" entry, which may be null.
Normalizer read_normalizer(const JsonPlace& place);

// Whether a step makes texts lower-case.
bool lowers_case(const Normalizer& normalizer);

// Returns the normalized text: `text` itself if it is unchanged, otherwise a view of one of the buffers.
std::string_view normalize(const Normalizer& normalizer, std::string_view text, std::string& buffer,
                           std::string& other);

// Replaces every occurrence, from left to right.
void append_replaced(std::string& out, std::string_view text, std::string_view pattern,
                     std::string_view content);
void append_replaced(std::string& out, std::string_view text, const Regex& pattern, std::string_view content);

// A pattern: {"String": ".."} or {"Regex": ".."}; exactly one field is set.
struct Pattern {
  std::string_view literal, regex;
  bool is_regex = false;
};
Pattern read_pattern(const JsonPlace& place);

}  // namespace quire::tokenizer
