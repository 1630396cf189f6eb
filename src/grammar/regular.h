// Regular languages: sets of byte strings, as immutable expressions that share their parts. Copies are cheap
// and safe to use from any thread. The functions simplify (nothing, empty, nested unions), but do not
// explore the language; grammar/automaton.h does that, within limits.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace quire::grammar {

using ByteSet = std::bitset<256>;

struct RegularNode;
using Regular = std::shared_ptr<const RegularNode>;

// One operator of an expression.
struct RegularNode {
  enum class Kind : uint8_t {
    kNothing,       // no string at all
    kEmpty,         // only the empty string
    kBytes,         // one byte out of `bytes`
    kConcat,        // parts[0], then parts[1], ...
    kUnion,         // a string of any part
    kIntersection,  // a string of all parts
    kComplement,    // a byte string that is not one of parts[0]
    kRepeat,        // parts[0], min to max times
  };
  // Without an upper limit.
  static constexpr uint32_t kUnlimited = UINT32_MAX;

  Kind kind = Kind::kNothing;
  bool nullable = false;  // whether the empty string belongs to the language
  ByteSet bytes;
  std::vector<Regular> parts;
  uint32_t min = 0;
  uint32_t max = 0;
};

Regular nothing();
Regular empty_text();
Regular bytes(const ByteSet& set);
// Exactly this text.
Regular text(std::string_view value);
Regular concat(std::vector<Regular> parts);
Regular any_of(std::vector<Regular> parts);
Regular all_of(std::vector<Regular> parts);
Regular complement(Regular part);
// The strings of `a` that are not in `b`.
Regular minus(Regular a, Regular b);
Regular repeat(Regular part, uint32_t min, uint32_t max = RegularNode::kUnlimited);
Regular optional(Regular part);

// Code points from `first` to `last`, both included.
struct CharacterRange {
  char32_t first = 0;
  char32_t last = 0;
};
// One character out of the ranges, as UTF-8. Surrogates and values above U+10FFFF belong to no language.
Regular characters(std::span<const CharacterRange> ranges);
// One character that is in none of the ranges.
Regular characters_except(std::span<const CharacterRange> ranges);
// Any character; valid UTF-8 is repeat(any_character(), 0).
Regular any_character();

}  // namespace quire::grammar
