// Hand-written equivalents of the regular expressions that common tokenizers split text with. Each gives
// exactly the pieces that the expression gives in the reference's engine, several times as fast.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace quire::tokenizer {

// A piece of a text, as byte offsets.
struct Range {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

enum class Splitter {
  kGpt2,           // GPT-2, and ByteLevel's own expression
  kCl100k,         // Llama 3, GPT-4: contractions without case, up to three digits
  kQwen2,          // as cl100k with single digits
  kQwen35,         // as Qwen2 with marks among the letters
  kO200k,          // GPT-4o, Llama 4, gpt-oss
  kThreeDigits,    // \p{N}{1,3}
  kAsciiTriplets,  // [0-9][0-9][0-9]
};

// The splitter that equals the expression, if there is one.
std::optional<Splitter> find_splitter(std::string_view pattern);

// Appends the matches in text[range], which is valid UTF-8 and is looked at alone. The expressions above the
// digit ones cover any text, so their matches are the pieces.
void split(Splitter splitter, std::string_view text, Range range, std::vector<Range>& matches);

}  // namespace quire::tokenizer
