// Unicode: reading and writing UTF-8, categories, lowercase and normal forms. Free functions over immutable
// tables; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/unicode/tables.h"

namespace quire::unicode {

enum Category : uint8_t {
  kCn,
  kCc,
  kCf,
  kCo,
  kCs,
  kLl,
  kLm,
  kLo,
  kLt,
  kLu,
  kMc,
  kMe,
  kMn,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPe,
  kPf,
  kPi,
  kPo,
  kPs,
  kSc,
  kSk,
  kSm,
  kSo,
  kZl,
  kZp,
  kZs,
};

// A set of categories as a bit mask; bit 30 is the property White_Space.
using CategorySet = uint32_t;
constexpr CategorySet set_of(Category c) {
  return CategorySet{1} << c;
}
inline constexpr CategorySet kSpace = CategorySet{1} << 30;
inline constexpr CategorySet kLetter = set_of(kLl) | set_of(kLm) | set_of(kLo) | set_of(kLt) | set_of(kLu);
inline constexpr CategorySet kMark = set_of(kMc) | set_of(kMe) | set_of(kMn);
inline constexpr CategorySet kNumber = set_of(kNd) | set_of(kNl) | set_of(kNo);
inline constexpr CategorySet kPunctuation =
    set_of(kPc) | set_of(kPd) | set_of(kPe) | set_of(kPf) | set_of(kPi) | set_of(kPo) | set_of(kPs);
inline constexpr CategorySet kSymbol = set_of(kSc) | set_of(kSk) | set_of(kSm) | set_of(kSo);

// Sets for which the reference uses other tables than the categories above.
enum Flag : uint8_t {
  kLegacyPunctuation = 0x01,  // splits in its Punctuation pre-tokenizer (except ASCII symbols)
  kBertRemoved = 0x02,        // removed by BERT's clean_text
  kLegacyNonspacing = 0x04,   // removed by BERT's strip_accents
  kLegacyMark = 0x08,         // removed by StripAccents
  kNumeric = 0x10,            // splits in Digits
  kInert = 0x20,              // newer than the reference's normal forms: not changed by them
  kComposing = 0x40,          // may change or reorder in NFC
  kDecomposing = 0x80,        // may change or reorder in NFD, NFKC, NFKD
};

inline uint8_t class_of(uint32_t cp) {
  return tables::kClassBlocks[tables::kClassIndex[cp >> 7] * 128u + (cp & 127u)];
}
inline Category category(uint32_t cp) {
  return static_cast<Category>(class_of(cp) & 31u);
}
// The category bit of the character, and kSpace if it has White_Space.
inline CategorySet sets_of(uint32_t cp) {
  const uint8_t c = class_of(cp);
  return (CategorySet{1} << (c & 31u)) | (static_cast<CategorySet>(c & 32u) << 25);
}
inline bool is_space(uint32_t cp) {
  return (class_of(cp) & 32u) != 0;
}
inline uint8_t flags_of(uint32_t cp) {
  return tables::kFlagBlocks[tables::kFlagIndex[cp >> 7] * 128u + (cp & 127u)];
}
// \w in the reference: letters, marks, decimal digits, connectors, letter numbers, circled letters, joiners.
bool is_word(uint32_t cp);

// Length of the UTF-8 sequence with this lead byte, in valid text.
inline size_t sequence_length(uint8_t lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// The start of the character that contains text[i], in valid text. i < text.size().
inline size_t character_start(std::string_view text, size_t i) {
  while ((static_cast<uint8_t>(text[i]) & 0xC0) == 0x80) --i;
  return i;
}

// Decodes the character at p of *valid* UTF-8 and sets its length.
inline uint32_t decode(const char* p, size_t* length) {
  const auto* u = reinterpret_cast<const uint8_t*>(p);
  if (u[0] < 0x80) return *length = 1, u[0];
  if (u[0] < 0xE0) return *length = 2, (u[0] & 0x1Fu) << 6 | (u[1] & 0x3Fu);
  if (u[0] < 0xF0) return *length = 3, (u[0] & 0x0Fu) << 12 | (u[1] & 0x3Fu) << 6 | (u[2] & 0x3Fu);
  return *length = 4, (u[0] & 7u) << 18 | (u[1] & 0x3Fu) << 12 | (u[2] & 0x3Fu) << 6 | (u[3] & 0x3Fu);
}
// Decodes the character that ends just before text[end] (valid UTF-8, end > 0).
uint32_t decode_before(std::string_view text, size_t end, size_t* length);

void append(std::string& out, uint32_t cp);

// Examines the first character of a byte string. kComplete: its length. kIncomplete: all bytes are a proper
// prefix of some character. kInvalid: the number of bytes that one U+FFFD replaces (Unicode's "maximal
// subpart").
enum class Utf8State { kComplete, kIncomplete, kInvalid };
Utf8State scan(std::string_view bytes, size_t* length);

bool is_valid(std::string_view text);
// Replaces invalid UTF-8 by one U+FFFD per maximal subpart (like WHATWG and Rust's from_utf8_lossy).
std::string to_valid(std::string_view bytes);
// Number of characters of valid UTF-8.
size_t count(std::string_view text);

// Appends the lowercase of one character, without context (no final sigma), like the reference.
void append_lower(std::string& out, uint32_t cp);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
// The normal form of valid UTF-8. Characters that are newer than the reference's tables (kInert) are not
// changed.
std::string normalize(std::string_view text, NormalForm form);
// A fast check whether normalize() changes nothing; may return false although it does not.
bool is_normalized(std::string_view text, NormalForm form);

}  // namespace quire::unicode
