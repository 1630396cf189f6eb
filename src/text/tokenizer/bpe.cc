#include "text/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <limits>

#include "text/tokenizer/vocabulary.h"
#include "text/unicode/unicode.h"

namespace quire::tokenizer {

namespace {

// Characters of byte-level vocabularies: printable Latin-1 characters represent themselves, other bytes use
// U+0100 and following.
constexpr std::array<uint16_t, 256> byte_characters() {
  std::array<uint16_t, 256> table{};
  uint16_t next = 256;
  for (unsigned b = 0; b < 256; ++b) {
    const bool itself = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    table[b] = itself ? static_cast<uint16_t>(b) : next++;
  }
  return table;
}
constexpr std::array<uint16_t, 256> kByteCharacters = byte_characters();

constexpr std::array<int16_t, 324> character_bytes() {
  std::array<int16_t, 324> table{};
  for (int16_t& b : table) b = -1;
  for (unsigned b = 0; b < 256; ++b) table[kByteCharacters[b]] = static_cast<int16_t>(b);
  return table;
}
constexpr std::array<int16_t, 324> kCharacterBytes = character_bytes();

}  // namespace

int byte_of_character(uint32_t cp) {
  return cp < kCharacterBytes.size() ? kCharacterBytes[cp] : -1;
}
uint32_t character_of_byte(uint8_t byte) {
  return kByteCharacters[byte];
}

std::string byte_level_bytes(std::string_view token) {
  std::string bytes;
  size_t length = 0;
  for (size_t i = 0; i < token.size(); i += length) {
    const int byte = byte_of_character(unicode::decode(token.data() + i, &length));
    if (byte < 0) return std::string(token);
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

int byte_token_value(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return -1;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

void MergeTable::reserve(size_t merges) {
  const size_t wanted = std::bit_ceil(std::max<size_t>(merges * 2, 64));
  if (wanted <= slots_.size()) return;
  std::vector<Slot> old(wanted);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.key != kFree) slots_[slot_of(slot.key)] = slot;
  }
}

size_t MergeTable::slot_of(uint64_t key) const {
  uint64_t hash = key * 0x9E3779B97F4A7C15ull;
  hash ^= hash >> 32;
  size_t i = hash & (slots_.size() - 1);
  while (slots_[i].key != kFree && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
  return i;
}

bool MergeTable::add(TokenId left, TokenId right, uint32_t rank, TokenId merged, bool replace) {
  reserve(count_ + 1);
  const uint64_t key = key_of(left, right);
  Slot& slot = slots_[slot_of(key)];
  const bool fresh = slot.key == kFree;
  if (fresh) ++count_;
  if (fresh || replace) slot = {key, {rank, merged}};
  return fresh;
}

const MergeTable::Merge* MergeTable::find(TokenId left, TokenId right) const {
  if (slots_.empty()) return nullptr;
  const Slot& slot = slots_[slot_of(key_of(left, right))];
  return slot.key == kFree ? nullptr : &slot.merge;
}

void prepare(Bpe& bpe, const Vocabulary& vocabulary) {
  std::string name;
  for (unsigned b = 0; b < 256; ++b) {
    name.clear();
    if (bpe.byte_level) {
      unicode::append(name, character_of_byte(static_cast<uint8_t>(b)));
    } else if (b < 128) {
      name.push_back(static_cast<char>(b));
    }
    bpe.byte_symbols[b] = name.empty() ? kNoToken : vocabulary.find(name).value_or(kNoToken);
    char buffer[8];
    std::snprintf(buffer, sizeof buffer, "<0x%02X>", b);
    bpe.fallback_bytes[b] = vocabulary.find(buffer).value_or(kNoToken);
  }
}

namespace {

constexpr size_t kShortWord = 48;

// For words of up to kShortWord symbols: searches all pairs for the best one in each step.
void merge_short(const MergeTable& merges, std::vector<TokenId>& ids, std::vector<TokenId>& out) {
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  size_t n = ids.size();
  uint32_t ranks[kShortWord];
  TokenId merged[kShortWord];
  const auto look_up = [&](size_t i) {
    const MergeTable::Merge* merge = i + 1 < n ? merges.find(ids[i], ids[i + 1]) : nullptr;
    ranks[i] = merge != nullptr ? merge->rank : kNone;
    merged[i] = merge != nullptr ? merge->merged : kNoToken;
  };
  for (size_t i = 0; i < n; ++i) look_up(i);
  for (;;) {
    size_t best = 0;
    for (size_t i = 1; i < n; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (n < 2 || ranks[best] == kNone) break;
    ids[best] = merged[best];
    for (size_t i = best + 1; i + 1 < n; ++i) {
      ids[i] = ids[i + 1];
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
    }
    --n;
    look_up(best);
    if (best > 0) look_up(best - 1);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
}

// For words of any length, O(n log n). Symbols are merged in place: one that was merged of k > 1 occupies k
// cells of scratch.ids. The first has its id; the second and the last have -k, so that both neighbors are
// found; the others are negative. scratch.ranks has the rank of each symbol with the next one, at its first
// cell. This needs 8.3 bytes per initial symbol.
class LongWord {
 public:
  LongWord(const MergeTable& merges, Scratch& scratch)
      : merges_(merges), scratch_(scratch), cells_(scratch.ids), ranks_(scratch.ranks) {}

  void merge() {
    ranks_.reset(cells_.size());
    for (size_t i = 0; i + 1 < cells_.size(); ++i) {
      scratch_.check_cancelled();
      ranks_.leaf(i) = rank_of(i, i + 1);
    }
    ranks_.build();
    while (true) {
      scratch_.check_cancelled();
      const auto [rank, position] = ranks_.first();
      if (rank == MinTree::kNone) return;
      merge_at(position);
    }
  }

  void append_to(std::vector<TokenId>& out) {
    size_t count = 0;
    for (size_t i = 0; i < cells_.size();) {
      scratch_.check_cancelled();
      const size_t next = i + length(i);
      cells_[count++] = cells_[i];
      i = next;
    }
    out.insert(out.end(), cells_.begin(), cells_.begin() + static_cast<std::ptrdiff_t>(count));
  }

 private:
  size_t length(size_t i) const {
    return i + 1 < cells_.size() && cells_[i + 1] < 0 ? static_cast<size_t>(-cells_[i + 1]) : 1;
  }
  uint32_t rank_of(size_t left, size_t right) const {
    const MergeTable::Merge* merge = merges_.find(cells_[left], cells_[right]);
    return merge != nullptr ? merge->rank : MinTree::kNone;
  }

  // Merges the symbol at `left` with the next one.
  void merge_at(size_t left) {
    const size_t right = left + length(left);
    const size_t next = right + length(right);
    cells_[left] = merges_.find(cells_[left], cells_[right])->merged;
    cells_[right] = -1;
    cells_[left + 1] = cells_[next - 1] = -static_cast<TokenId>(next - left);
    ranks_.set(right, MinTree::kNone);
    ranks_.set(left, next < cells_.size() ? rank_of(left, next) : MinTree::kNone);
    if (left == 0) return;
    const size_t previous = cells_[left - 1] < 0 ? left - static_cast<size_t>(-cells_[left - 1]) : left - 1;
    ranks_.set(previous, rank_of(previous, left));
  }

  const MergeTable& merges_;
  Scratch& scratch_;
  std::vector<TokenId>& cells_;
  MinTree& ranks_;
};

void merge_long(const MergeTable& merges, Scratch& scratch, std::vector<TokenId>& out) {
  LongWord word(merges, scratch);
  word.merge();
  // Memory of a very long word is not kept.
  constexpr size_t kKeep = size_t{1} << 16;
  scratch.ranks.trim(kKeep);
  word.append_to(out);
  if (scratch.ids.capacity() > kKeep) std::vector<TokenId>().swap(scratch.ids);
}

// The initial symbols of the characters of a word, with unknown ones replaced.
class SymbolReader {
 public:
  SymbolReader(const Bpe& bpe, const Vocabulary& vocabulary, Scratch& scratch)
      : bpe_(bpe), vocabulary_(vocabulary), scratch_(scratch), ids_(scratch.ids) {}

  // Adds a symbol with the spelling `character` in the word.
  void add(std::string_view character, TokenId known) {
    if (known != kNoToken) {
      flush();
      ids_.push_back(known);
      return;
    }
    if (bpe_.byte_fallback && std::all_of(character.begin(), character.end(), [this](char c) {
          return bpe_.fallback_bytes[static_cast<uint8_t>(c)] != kNoToken;
        })) {
      // As in the reference, a pending unknown token remains pending after these bytes.
      for (const char c : character) ids_.push_back(bpe_.fallback_bytes[static_cast<uint8_t>(c)]);
      return;
    }
    if (bpe_.unknown == kNoToken) return;
    if (!bpe_.fuse_unknown) flush();
    pending_ = true;
  }
  void flush() {
    if (pending_) ids_.push_back(bpe_.unknown);
    pending_ = false;
  }

  void read_bytes(std::string_view word) {
    for (const char c : word) {
      scratch_.check_cancelled();
      const TokenId id = bpe_.byte_symbols[static_cast<uint8_t>(c)];
      if (id != kNoToken) {
        flush();
        ids_.push_back(id);
      } else {
        std::string character;
        unicode::append(character, character_of_byte(static_cast<uint8_t>(c)));
        add(character, kNoToken);
      }
    }
    flush();
  }

  void read_characters(std::string_view word) {
    const bool plain = bpe_.continuing_prefix.empty() && bpe_.word_suffix.empty();
    std::string spelling;
    for (size_t i = 0; i < word.size();) {
      scratch_.check_cancelled();
      const auto lead = static_cast<uint8_t>(word[i]);
      const size_t length = unicode::sequence_length(lead);
      std::string_view character = word.substr(i, length);
      i += length;
      if (plain && lead < 0x80 && bpe_.byte_symbols[lead] != kNoToken) {
        flush();
        ids_.push_back(bpe_.byte_symbols[lead]);
        continue;
      }
      if (!plain) {
        spelling.clear();
        if (i > length) spelling += bpe_.continuing_prefix;
        spelling += character;
        if (i == word.size()) spelling += bpe_.word_suffix;
        character = spelling;
      }
      add(character, vocabulary_.find(character).value_or(kNoToken));
    }
    flush();
  }

 private:
  const Bpe& bpe_;
  const Vocabulary& vocabulary_;
  Scratch& scratch_;
  std::vector<TokenId>& ids_;
  bool pending_ = false;  // an unknown token is not written yet
};

void encode_uncached(const Bpe& bpe, const Vocabulary& vocabulary, std::string_view word, Scratch& scratch,
                     std::vector<TokenId>& out) {
  if (bpe.ignore_merges) {
    std::string spelled;
    if (bpe.byte_level) {
      for (const char c : word) unicode::append(spelled, character_of_byte(static_cast<uint8_t>(c)));
    }
    if (const auto id = vocabulary.find(bpe.byte_level ? std::string_view(spelled) : word)) {
      out.push_back(*id);
      return;
    }
  }
  scratch.ids.clear();
  scratch.ids.reserve(word.size());
  SymbolReader reader(bpe, vocabulary, scratch);
  bpe.byte_level ? reader.read_bytes(word) : reader.read_characters(word);
  merge_symbols(bpe.merges, scratch, out);
}

void encode_cached(const Bpe& bpe, const Vocabulary& vocabulary, std::string_view word, Scratch& scratch,
                   std::vector<TokenId>& out) {
  if (!WordCache::cacheable(word)) {
    // Positions within a word have 31 bits; longer words are split.
    constexpr size_t kLongestWord = size_t{1} << 30;
    while (word.size() > kLongestWord) {
      const size_t cut = unicode::character_start(word, kLongestWord);
      encode_uncached(bpe, vocabulary, word.substr(0, cut), scratch, out);
      word.remove_prefix(cut);
    }
    return encode_uncached(bpe, vocabulary, word, scratch, out);
  }
  WordCache::Entry& entry = scratch.cache.slot(word);
  if (entry.holds(word)) {
    out.insert(out.end(), entry.tokens.begin(), entry.tokens.begin() + entry.num_tokens);
    return;
  }
  const size_t before = out.size();
  encode_uncached(bpe, vocabulary, word, scratch, out);
  WordCache::fill(entry, word, out.data() + before, out.size() - before);
}

}  // namespace

void merge_symbols(const MergeTable& merges, Scratch& scratch, std::vector<TokenId>& out) {
  if (scratch.ids.size() <= kShortWord) {
    merge_short(merges, scratch.ids, out);
  } else {
    merge_long(merges, scratch, out);
  }
}

void encode_word(const Bpe& bpe, const Vocabulary& vocabulary, std::string_view word, Scratch& scratch,
                 std::vector<TokenId>& out) {
  if (!bpe.cut_at_meta_space) return encode_cached(bpe, vocabulary, word, scratch, out);
  // Splits before each meta space that does not follow another one.
  for (size_t begin = 0; begin < word.size();) {
    size_t end = begin;
    while (word.substr(end, kMetaSpace.size()) == kMetaSpace) end += kMetaSpace.size();
    end = std::min(word.find(kMetaSpace, end), word.size());
    encode_cached(bpe, vocabulary, word.substr(begin, end - begin), scratch, out);
    begin = end;
  }
}

}  // namespace quire::tokenizer
