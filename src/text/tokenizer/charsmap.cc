#include "text/tokenizer/charsmap.h"

#include <utf8proc.h>

#include <cstring>

#include "base/error.h"
#include "text/unicode/unicode.h"

namespace quire::tokenizer {

namespace {

// Fields of a Darts-clone unit.
constexpr bool has_leaf(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
constexpr uint32_t value_of(uint32_t unit) {
  return unit & 0x7FFFFFFFu;
}
constexpr uint32_t label_of(uint32_t unit) {
  return unit & (0x80000000u | 0xFFu);
}
constexpr uint32_t offset_of(uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200u) >> 6);
}

}  // namespace

void CharsMap::load(std::string_view blob, const std::string& where) {
  units_.clear();
  if (blob.empty()) return;
  uint32_t trie_bytes = 0;
  if (blob.size() < sizeof trie_bytes) throw Error(where + ": the precompiled charsmap is truncated");
  std::memcpy(&trie_bytes, blob.data(), sizeof trie_bytes);
  blob.remove_prefix(sizeof trie_bytes);
  if (trie_bytes > blob.size() || trie_bytes % 4 != 0 || trie_bytes == 0) {
    throw Error(where + ": the precompiled charsmap states a trie of " + std::to_string(trie_bytes) +
                " bytes, but has " + std::to_string(blob.size()));
  }
  units_.resize(trie_bytes / 4);
  std::memcpy(units_.data(), blob.data(), trie_bytes);
  replacements_.assign(blob.substr(trie_bytes));
  if (!unicode::is_valid(replacements_))
    throw Error(where + ": the precompiled charsmap's replacements are not UTF-8");
  replacements_.push_back('\0');
  const uint32_t root = offset_of(units_[0]);
  for (uint32_t c = 0; c < 128; ++c) {
    const size_t child = root ^ c;
    starts_key_[c] = child < units_.size() && label_of(units_[child]) == c;
  }
}

bool CharsMap::search(std::string_view text, bool first, std::string_view* replacement,
                      size_t* length) const {
  if (units_.empty()) return false;
  bool found = false;
  uint32_t node = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit) || node >= units_.size()) continue;
    const uint32_t at = value_of(units_[node]);
    // A replacement must start within the text, at a character boundary.
    if (at >= replacements_.size() || (static_cast<uint8_t>(replacements_[at]) & 0xC0) == 0x80) continue;
    *replacement = std::string_view(replacements_.data() + at);
    *length = i + 1;
    found = true;
    if (first) break;
  }
  return found;
}

bool CharsMap::shortest(std::string_view text, std::string_view* replacement, size_t* length) const {
  return search(text, true, replacement, length);
}
bool CharsMap::longest(std::string_view text, std::string_view* replacement, size_t* length) const {
  return search(text, false, replacement, length);
}

void normalize_by_graphemes(const CharsMap& map, std::string_view text, std::string& out) {
  constexpr size_t kShortGrapheme = 6;  // in bytes; the reference looks up shorter clusters as a whole
  const auto plain = [&](size_t i) {
    const auto c = static_cast<uint8_t>(text[i]);
    return c < 0x80 && !map.may_change(c);
  };
  for (size_t i = 0; i < text.size();) {
    // An ASCII character before an ASCII character is a cluster. The exception is CR LF; maps for which this
    // matters have a key for CR.
    size_t run = i;
    while (run < text.size() && plain(run) && text[run] != '\r' &&
           (run + 1 == text.size() || static_cast<uint8_t>(text[run + 1]) < 0x80)) {
      ++run;
    }
    out.append(text, i, run - i);
    if ((i = run) == text.size()) break;
    size_t length = 0;
    auto last = static_cast<utf8proc_int32_t>(unicode::decode(text.data() + i, &length));
    size_t end = i + length;
    utf8proc_int32_t state = 0;
    while (end < text.size()) {
      const auto next = static_cast<utf8proc_int32_t>(unicode::decode(text.data() + end, &length));
      if (utf8proc_grapheme_break_stateful(last, next, &state)) break;
      end += length;
      last = next;
    }
    std::string_view replacement;
    if (end - i < kShortGrapheme && map.shortest(text.substr(i, end - i), &replacement, &length)) {
      out.append(replacement);
      i = end;
      continue;
    }
    for (; i < end; i += length) {
      unicode::decode(text.data() + i, &length);
      size_t key_length = 0;
      if (map.shortest(text.substr(i, length), &replacement, &key_length)) {
        out.append(replacement);
      } else {
        out.append(text, i, length);
      }
    }
  }
}

}  // namespace quire::tokenizer
