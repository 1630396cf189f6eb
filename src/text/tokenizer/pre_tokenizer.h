// Splitting of a text into words for the model: a list of steps, each for one entry of "pre_tokenizer".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/tokenizer/json.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/scratch.h"
#include "text/tokenizer/splitters.h"

namespace quire::tokenizer {

// Treatment of the matches at which a text is split.
enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct ByteLevelStep {
  bool add_prefix_space = true;
  bool use_regex = true;
};
struct SplitStep {
  std::optional<Splitter> known;  // a known expression; otherwise the expression below
  std::optional<Regex> regex;
  std::string literal;  // if there is neither: this string
  Behavior behavior = Behavior::kRemoved;
  bool invert = false;  // swaps matches and the text between them
};
// Splits at the characters of a class.
struct ClassStep {
  enum class Class { kSpace, kLegacyPunctuation, kNumeric };
  Class of = Class::kSpace;
  Behavior behavior = Behavior::kRemoved;
};
struct WordStep {};  // \w+|[^\w\s]+
struct FixedLengthStep {
  size_t length = 1;  // in characters
};
struct MetaspaceStep {
  enum class Prepend { kAlways, kFirst, kNever };
  std::string replacement = "\xE2\x96\x81";
  Prepend prepend = Prepend::kAlways;
  bool split = true;
};

using PreTokenizerStep =
    std::variant<ByteLevelStep, SplitStep, ClassStep, WordStep, FixedLengthStep, MetaspaceStep>;

struct PreTokenizer {
  std::vector<PreTokenizerStep> steps;
  bool byte_level = false;  // words are bytes, for a byte-level model
};

// Reads the "pre_tokenizer" entry, which may be null.
PreTokenizer read_pre_tokenizer(const JsonPlace& place);
// Reads a Metaspace entry, which may also be a decoder.
MetaspaceStep read_metaspace(const JsonPlace& place);

// Splits a normalized text. The words are returned in scratch.pieces, as ranges of the returned text, which
// is `text` or one of the buffers. at_start: the text is the start of the input. `text` must not be in the
// buffers.
std::string_view pre_tokenize(const PreTokenizer& pre_tokenizer, std::string_view text, bool at_start,
                              Scratch& scratch, std::string& buffer, std::string& other);

}  // namespace quire::tokenizer
