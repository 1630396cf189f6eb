// Hand-written equivalents of the regular expressions of common tokenizers. Each returns exactly the same
// pieces as the expression in the reference's engine, and is several times as fast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace quire::tokenizer {

// A range of a text of less than 4 GiB, in bytes. Small, because a long text has many.
struct Range {
  Range() = default;
  Range(size_t first, size_t last) : begin(static_cast<uint32_t>(first)), end(static_cast<uint32_t>(last)) {}
  uint32_t begin = 0;
  uint32_t end = 0;
  size_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

struct Scratch;

enum class Splitter {
  kGpt2,           // GPT-2, and the expression of ByteLevel
  kCl100k,         // Llama 3, GPT-4: case-insensitive contractions, up to three digits
  kQwen2,          // like cl100k with single digits
  kQwen35,         // like Qwen2, with marks treated as letters
  kO200k,          // GPT-4o, Llama 4, gpt-oss
  kThreeDigits,    // \p{N}{1,3}
  kAsciiTriplets,  // [0-9][0-9][0-9]
};

// The splitter for an expression, if there is one.
std::optional<Splitter> find_splitter(std::string_view pattern);

// Appends the matches in text[range], which must be valid UTF-8; the text around it is ignored. Except for
// the digit expressions, matches cover the whole text, so they are the pieces. Throws Cancelled soon after
// the yield point of `scratch` is cancelled.
void split(Splitter splitter, std::string_view text, Range range, Scratch& scratch,
           std::vector<Range>& matches);

}  // namespace quire::tokenizer
