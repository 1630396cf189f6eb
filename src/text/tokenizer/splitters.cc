#include "text/tokenizer/splitters.h"

#include <array>
#include <cstdint>

#include "text/tokenizer/scratch.h"
#include "text/unicode/unicode.h"

namespace quire::tokenizer {

namespace {

namespace u = quire::unicode;
using u::CategorySet;

constexpr CategorySet kUpperLike =
    u::set_of(u::kLu) | u::set_of(u::kLt) | u::set_of(u::kLm) | u::set_of(u::kLo) | u::kMark;
constexpr CategorySet kLowerLike = u::set_of(u::kLl) | u::set_of(u::kLm) | u::set_of(u::kLo) | u::kMark;

// The sets of each ASCII character, so that the common case needs no decoding.
constexpr std::array<CategorySet, 128> ascii_sets() {
  std::array<CategorySet, 128> sets{};
  for (uint32_t c = 0; c < 128; ++c) {
    CategorySet s = 0;
    if (c >= 'a' && c <= 'z') {
      s = u::set_of(u::kLl);
    } else if (c >= 'A' && c <= 'Z') {
      s = u::set_of(u::kLu);
    } else if (c >= '0' && c <= '9') {
      s = u::set_of(u::kNd);
    } else if (c == ' ') {
      s = u::set_of(u::kZs) | u::kSpace;
    } else if (c < 32 || c == 127) {
      s = u::set_of(u::kCc) | (c >= 9 && c <= 13 ? u::kSpace : 0);
    } else if (c == '$') {
      s = u::set_of(u::kSc);
    } else if (c == '+' || c == '<' || c == '=' || c == '>' || c == '|' || c == '~') {
      s = u::set_of(u::kSm);
    } else if (c == '^' || c == '`') {
      s = u::set_of(u::kSk);
    } else {
      s = u::set_of(u::kPo);  // no splitter distinguishes types of punctuation
    }
    sets[c] = s;
  }
  return sets;
}
constexpr std::array<CategorySet, 128> kAscii = ascii_sets();

// Reads characters of text[..end).
struct Reader {
  const char* text;
  size_t end;

  // The sets of the character at i, and its length; 0 at the end.
  CategorySet at(size_t i, size_t* length) const {
    if (i >= end) return *length = 0, 0;
    const auto c = static_cast<uint8_t>(text[i]);
    if (c < 0x80) return *length = 1, kAscii[c];
    return u::sets_of(u::decode(text + i, length));
  }
  // The end of the run of characters in `set` that starts at i.
  size_t run(size_t i, CategorySet set) const {
    size_t length = 0;
    while (at(i, &length) & set) i += length;
    return i;
  }
  // The end of the run of characters not in `set`.
  size_t run_outside(size_t i, CategorySet set) const {
    size_t length = 0;
    for (;;) {
      const CategorySet s = at(i, &length);
      if (s == 0 || (s & set)) return i;
      i += length;
    }
  }
  bool is(size_t i, char c) const { return i < end && text[i] == c; }
  bool is_newline(size_t i) const { return i < end && (text[i] == '\n' || text[i] == '\r'); }
};

// The end of 's 't 're 've 'm 'll 'd at the apostrophe at i, or 0. If case-insensitive, the long s matches s.
size_t contraction(const Reader& r, size_t i, bool any_case) {
  if (!r.is(i, '\'')) return 0;
  const auto letter = [&](size_t j) -> char {
    if (j >= r.end) return 0;
    const char c = r.text[j];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  const char first = letter(i + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return i + 2;
  const char second = letter(i + 2);
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l'))
    return i + 3;
  if (any_case && first == '\xC5' && i + 2 < r.end && r.text[i + 2] == '\xBF') return i + 3;
  return 0;
}

// The end of `\s*[\r\n]+|\s+(?!\S)|\s+` (or without its first alternative) at i.
size_t white_space(const Reader& r, size_t i, bool newlines_first) {
  size_t length = 0, last = i, after_newline = 0, j = i;
  while (r.at(j, &length) & u::kSpace) {
    last = j;
    j += length;
    if (r.text[last] == '\n' || r.text[last] == '\r') after_newline = j;
  }
  if (newlines_first && after_newline != 0) return after_newline;
  if (j == r.end || last == i) return j;
  return last;  // all except the last one, which belongs to the next word
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
struct Gpt2 {
  static size_t next(const Reader& r, size_t i) {
    if (const size_t end = contraction(r, i, false)) return end;
    size_t length = 0;
    size_t word = i + (r.is(i, ' ') ? 1 : 0);
    const CategorySet set = r.at(word, &length);
    if (set & u::kLetter) return r.run(word + length, u::kLetter);
    if (set & u::kNumber) return r.run(word + length, u::kNumber);
    if (set != 0 && !(set & u::kSpace))
      return r.run_outside(word + length, u::kSpace | u::kLetter | u::kNumber);
    return white_space(r, i, false);
  }
};

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?LETTER+|\p{N}{1,DIGITS}| ?[^\s LETTER
// \p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <CategorySet kWordSet, int kDigits>
struct Cl100k {
  static size_t next(const Reader& r, size_t i) {
    if (const size_t end = contraction(r, i, true)) return end;
    size_t length = 0, second_length = 0;
    const CategorySet set = r.at(i, &length);
    if (set & u::kLetter) return r.run(i + length, kWordSet);
    if (set & u::kNumber) {
      size_t end = i + length;
      for (int n = 1; n < kDigits && (r.at(end, &length) & u::kNumber); ++n) end += length;
      return end;
    }
    if (!r.is_newline(i)) {
      const CategorySet second = r.at(i + length, &second_length);
      if (second & kWordSet) return r.run(i + length + second_length, kWordSet);
      if (set & kWordSet) return r.run(i + length, kWordSet);
    }
    constexpr CategorySet kNot = u::kSpace | kWordSet | u::kNumber;
    const size_t start = i + (r.is(i, ' ') ? 1 : 0);
    size_t end = r.run_outside(start, kNot);
    if (end > start) {
      while (r.is_newline(end)) ++end;
      return end;
    }
    return white_space(r, i, true);
  }
};

// [^\r\n\p{L}\p{N}]?UPPER*LOWER+(?i:'s|..)?|[^\r\n\p{L}\p{N}]?UPPER+LOWER*(?i:'s|..)?|\p{N}{1,3}|
// ?[^\s\p{L}\p{N}]+[\r\n/]*| \s*[\r\n]+|\s+(?!\S)|\s+   with UPPER = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], LOWER =
// [\p{Ll}\p{Lm}\p{Lo}\p{M}]
struct O200k {
  // The end of UPPER*LOWER+ at i, or 0. *upper_end: the end of UPPER*.
  static size_t lower_word(const Reader& r, size_t i, size_t* upper_end) {
    size_t length = 0, j = i, after_last_both = 0;
    for (CategorySet set = r.at(j, &length); set & kUpperLike; set = r.at(j, &length)) {
      j += length;
      if (set & kLowerLike) after_last_both = j;
    }
    *upper_end = j;
    const size_t end = r.run(j, kLowerLike);
    return end > j ? end : after_last_both;
  }
  static size_t with_contraction(const Reader& r, size_t end) {
    const size_t longer = contraction(r, end, true);
    return longer != 0 ? longer : end;
  }

  static size_t next(const Reader& r, size_t i) {
    size_t length = 0;
    const CategorySet set = r.at(i, &length);
    const bool may_lead = !r.is_newline(i) && !(set & (u::kLetter | u::kNumber));
    const bool may_start = (set & (u::kLetter | u::kMark)) != 0;
    if (may_lead || may_start) {
      size_t lead_upper = 0, own_upper = 0;
      if (may_lead) {
        if (const size_t end = lower_word(r, i + length, &lead_upper)) return with_contraction(r, end);
      }
      if (may_start) {
        if (const size_t end = lower_word(r, i, &own_upper)) return with_contraction(r, end);
      }
      if (may_lead && lead_upper > i + length) return with_contraction(r, lead_upper);
      if (may_start && own_upper > i) return with_contraction(r, own_upper);
    }
    if (set & u::kNumber) {
      size_t end = i + length;
      for (int n = 1; n < 3 && (r.at(end, &length) & u::kNumber); ++n) end += length;
      return end;
    }
    const size_t start = i + (r.is(i, ' ') ? 1 : 0);
    size_t end = r.run_outside(start, u::kSpace | u::kLetter | u::kNumber);
    if (end > start) {
      while (r.is_newline(end) || r.is(end, '/')) ++end;
      return end;
    }
    return white_space(r, i, true);
  }
};

template <typename Rules>
void split_all(std::string_view text, Range range, Scratch& scratch, std::vector<Range>& matches) {
  const Reader reader{text.data(), range.end};
  for (size_t i = range.begin; i < range.end;) {
    scratch.check_cancelled();
    const size_t end = Rules::next(reader, i);
    matches.push_back({i, end});
    i = end;
  }
}

void split_three_digits(std::string_view text, Range range, Scratch& scratch, std::vector<Range>& matches) {
  const Reader reader{text.data(), range.end};
  size_t length = 0;
  for (size_t i = range.begin; i < range.end;) {
    scratch.check_cancelled();
    size_t end = i;
    for (int n = 0; n < 3 && (reader.at(end, &length) & u::kNumber); ++n) end += length;
    if (end > i) {
      matches.push_back({i, end});
      i = end;
    } else {
      i += u::sequence_length(static_cast<uint8_t>(text[i]));
    }
  }
}

void split_ascii_triplets(std::string_view text, Range range, Scratch& scratch, std::vector<Range>& matches) {
  const auto digit = [&](size_t i) { return text[i] >= '0' && text[i] <= '9'; };
  for (size_t i = range.begin; i + 3 <= range.end;) {
    scratch.check_cancelled();
    if (!digit(i + 2)) {
      i += 3;
    } else if (!digit(i + 1)) {
      i += 2;
    } else if (!digit(i)) {
      i += 1;
    } else {
      matches.push_back({i, i + 3});
      i += 3;
    }
  }
}

struct Known {
  std::string_view pattern;
  Splitter splitter;
};
constexpr Known kKnown[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Splitter::kGpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Splitter::kCl100k},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Splitter::kQwen2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Splitter::kQwen35},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Splitter::kO200k},
    {R"(\p{N}{1,3})", Splitter::kThreeDigits},
    {"[0-9][0-9][0-9]", Splitter::kAsciiTriplets},
};

}  // namespace

std::optional<Splitter> find_splitter(std::string_view pattern) {
  for (const Known& known : kKnown) {
    if (known.pattern == pattern) return known.splitter;
  }
  return std::nullopt;
}

void split(Splitter splitter, std::string_view text, Range range, Scratch& scratch,
           std::vector<Range>& matches) {
  switch (splitter) {
    case Splitter::kGpt2:
      return split_all<Gpt2>(text, range, scratch, matches);
    case Splitter::kCl100k:
      return split_all<Cl100k<u::kLetter, 3>>(text, range, scratch, matches);
    case Splitter::kQwen2:
      return split_all<Cl100k<u::kLetter, 1>>(text, range, scratch, matches);
    case Splitter::kQwen35:
      return split_all<Cl100k<u::kLetter | u::kMark, 1>>(text, range, scratch, matches);
    case Splitter::kO200k:
      return split_all<O200k>(text, range, scratch, matches);
    case Splitter::kThreeDigits:
      return split_three_digits(text, range, scratch, matches);
    case Splitter::kAsciiTriplets:
      return split_ascii_triplets(text, range, scratch, matches);
  }
}

}  // namespace quire::tokenizer
