#include "grammar/regular.h"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

namespace quire::grammar {
namespace {

using Kind = RegularNode::Kind;

constexpr char32_t kLastCharacter = 0x10FFFF;

Regular make(RegularNode node) {
  return std::make_shared<const RegularNode>(std::move(node));
}

Regular byte_range(uint32_t first, uint32_t last) {
  ByteSet set;
  for (uint32_t byte = first; byte <= last; ++byte) set.set(byte);
  return bytes(set);
}

// Parts of the same kind become parts of the result: (a | b) | c is a | b | c.
std::vector<Regular> flattened(std::vector<Regular> parts, Kind kind) {
  std::vector<Regular> flat;
  flat.reserve(parts.size());
  for (Regular& part : parts) {
    if (part->kind == kind) {
      flat.insert(flat.end(), part->parts.begin(), part->parts.end());
    } else {
      flat.push_back(std::move(part));
    }
  }
  return flat;
}

// Without nodes that occur twice. Languages that are equal but were built twice remain.
void remove_duplicates(std::vector<Regular>& parts) {
  std::vector<Regular> unique;
  std::unordered_set<const RegularNode*> seen;
  for (Regular& part : parts) {
    if (seen.insert(part.get()).second) unique.push_back(std::move(part));
  }
  parts = std::move(unique);
}

// All code points with the same length in UTF-8, as a sequence of sets of bytes: the range is split until the
// remaining bytes of both ends are the lowest and the highest.
void add_utf8_ranges(char32_t first, char32_t last, std::vector<Regular>& alternatives) {
  static constexpr std::array<char32_t, 4> kLastOfLength = {0x7F, 0x7FF, 0xFFFF, kLastCharacter};
  for (const char32_t limit : kLastOfLength) {
    if (first <= limit && limit < last) {
      add_utf8_ranges(first, limit, alternatives);
      first = limit + 1;
    }
  }
  const size_t length = first <= 0x7F ? 1 : first <= 0x7FF ? 2 : first <= 0xFFFF ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    const char32_t low = (char32_t{1} << (6 * i)) - 1;  // bits of the last i bytes
    if ((first & ~low) == (last & ~low)) continue;
    if ((first & low) != 0) {
      add_utf8_ranges(first, first | low, alternatives);
      return add_utf8_ranges((first | low) + 1, last, alternatives);
    }
    if ((last & low) != low) {
      add_utf8_ranges(first, (last & ~low) - 1, alternatives);
      return add_utf8_ranges(last & ~low, last, alternatives);
    }
  }
  static constexpr std::array<uint32_t, 5> kLead = {0, 0, 0xC0, 0xE0, 0xF0};
  std::vector<Regular> sequence;
  for (size_t i = length; i-- > 0;) {
    const uint32_t mask = i + 1 == length ? 0xFF : 0x3F;
    const uint32_t mark = i + 1 == length ? kLead[length] : 0x80;
    sequence.push_back(byte_range(mark | ((first >> (6 * i)) & mask), mark | ((last >> (6 * i)) & mask)));
  }
  alternatives.push_back(concat(std::move(sequence)));
}

// Sorted, without overlaps and surrogates.
std::vector<CharacterRange> normalized(std::span<const CharacterRange> ranges) {
  std::vector<CharacterRange> sorted;
  const auto add = [&](char32_t first, char32_t last) {
    if (first <= last) sorted.push_back({first, last});
  };
  for (const CharacterRange& range : ranges) {
    add(range.first, std::min<char32_t>(range.last, 0xD7FF));
    add(std::max<char32_t>(range.first, 0xE000), std::min(range.last, kLastCharacter));
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const CharacterRange& a, const CharacterRange& b) { return a.first < b.first; });
  std::vector<CharacterRange> merged;
  for (const CharacterRange& range : sorted) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

}  // namespace

Regular nothing() {
  static const Regular node = make({});
  return node;
}

Regular empty_text() {
  static const Regular node = make({.kind = Kind::kEmpty, .nullable = true});
  return node;
}

Regular bytes(const ByteSet& set) {
  if (set.none()) return nothing();
  return make({.kind = Kind::kBytes, .bytes = set});
}

Regular text(std::string_view value) {
  // Long texts share the nodes of their bytes.
  static const std::array<Regular, 256> bytes_of_texts = [] {
    std::array<Regular, 256> nodes;
    for (uint32_t byte = 0; byte < 256; ++byte) nodes[byte] = byte_range(byte, byte);
    return nodes;
  }();
  std::vector<Regular> parts;
  parts.reserve(value.size());
  for (const char c : value) parts.push_back(bytes_of_texts[static_cast<uint8_t>(c)]);
  return concat(std::move(parts));
}

Regular concat(std::vector<Regular> parts) {
  parts = flattened(std::move(parts), Kind::kConcat);
  std::erase_if(parts, [](const Regular& part) { return part->kind == Kind::kEmpty; });
  bool nullable = true;
  for (const Regular& part : parts) {
    if (part->kind == Kind::kNothing) return nothing();
    nullable = nullable && part->nullable;
  }
  if (parts.empty()) return empty_text();
  if (parts.size() == 1) return parts[0];
  return make({.kind = Kind::kConcat, .nullable = nullable, .parts = std::move(parts)});
}

Regular any_of(std::vector<Regular> parts) {
  parts = flattened(std::move(parts), Kind::kUnion);
  // All single bytes are one set.
  ByteSet set;
  std::vector<Regular> others;
  bool nullable = false;
  for (Regular& part : parts) {
    if (part->kind == Kind::kNothing) continue;
    nullable = nullable || part->nullable;
    if (part->kind == Kind::kBytes) {
      set |= part->bytes;
    } else {
      others.push_back(std::move(part));
    }
  }
  if (set.any()) others.push_back(bytes(set));
  remove_duplicates(others);
  if (others.empty()) return nothing();
  if (others.size() == 1) return others[0];
  return make({.kind = Kind::kUnion, .nullable = nullable, .parts = std::move(others)});
}

Regular all_of(std::vector<Regular> parts) {
  parts = flattened(std::move(parts), Kind::kIntersection);
  bool nullable = true;
  for (const Regular& part : parts) {
    if (part->kind == Kind::kNothing) return nothing();
    nullable = nullable && part->nullable;
  }
  remove_duplicates(parts);
  if (parts.empty()) return complement(nothing());
  if (parts.size() == 1) return parts[0];
  return make({.kind = Kind::kIntersection, .nullable = nullable, .parts = std::move(parts)});
}

Regular complement(Regular part) {
  if (part->kind == Kind::kComplement) return part->parts[0];
  const bool nullable = !part->nullable;
  return make({.kind = Kind::kComplement, .nullable = nullable, .parts = {std::move(part)}});
}

Regular minus(Regular a, Regular b) {
  return all_of({std::move(a), complement(std::move(b))});
}

Regular repeat(Regular part, uint32_t min, uint32_t max) {
  if (max == 0 || part->kind == Kind::kEmpty) return empty_text();
  if (part->kind == Kind::kNothing) return min == 0 ? empty_text() : nothing();
  if (min == 1 && max == 1) return part;
  const bool nullable = min == 0 || part->nullable;
  return make(
      {.kind = Kind::kRepeat, .nullable = nullable, .parts = {std::move(part)}, .min = min, .max = max});
}

Regular optional(Regular part) {
  return repeat(std::move(part), 0, 1);
}

Regular characters(std::span<const CharacterRange> ranges) {
  std::vector<Regular> alternatives;
  for (const CharacterRange& range : normalized(ranges))
    add_utf8_ranges(range.first, range.last, alternatives);
  return any_of(std::move(alternatives));
}

Regular characters_except(std::span<const CharacterRange> ranges) {
  std::vector<CharacterRange> rest;
  char32_t next = 0;
  for (const CharacterRange& range : normalized(ranges)) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCharacter) rest.push_back({next, kLastCharacter});
  return characters(rest);
}

Regular any_character() {
  static const Regular node = characters_except({});
  return node;
}

}  // namespace quire::grammar
