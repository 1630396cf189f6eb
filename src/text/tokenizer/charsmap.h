// SentencePiece's precompiled normalization: a double-array trie (Darts-clone) from byte strings to their
// replacements.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::tokenizer {

// Immutable after load().
class CharsMap {
 public:
  // The blob: size of the trie in bytes (u32, little endian), the trie, and the replacements, each terminated
  // by a zero byte. Throws Error with `where` if it is invalid.
  void load(std::string_view blob, const std::string& where);
  bool empty() const { return units_.empty(); }

  // The replacement and the length of the shortest / longest key that is a prefix of `text`; returns false if
  // there is none.
  bool shortest(std::string_view text, std::string_view* replacement, size_t* length) const;
  bool longest(std::string_view text, std::string_view* replacement, size_t* length) const;

  // Whether a key starts with this ASCII character.
  bool may_change(uint8_t ascii) const { return starts_key_[ascii]; }

 private:
  bool search(std::string_view text, bool first, std::string_view* replacement, size_t* length) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
  std::array<bool, 128> starts_key_{};
};

// Applies the map like the reference: to a grapheme cluster of less than six bytes at once, otherwise to each
// character. Appends the normalized form of valid UTF-8.
void normalize_by_graphemes(const CharsMap& map, std::string_view text, std::string& out);

}  // namespace quire::tokenizer
