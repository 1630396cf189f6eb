#include "text/chat/jinja/unicode_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "text/chat/jinja/special_case.h"
#include "text/unicode/unicode.h"

namespace quire::jinja {
namespace {

int category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool continuation(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

char32_t bits(std::string_view text, size_t at) {
  return static_cast<unsigned char>(text[at]) & 0x3F;
}

const SpecialCase* special_case(char32_t c) {
  const auto* end = std::end(kSpecialCases);
  const auto* at = std::lower_bound(std::begin(kSpecialCases), end, c,
                                    [](const SpecialCase& row, char32_t x) { return row.from < x; });
  return at != end && at->from == c ? at : nullptr;
}

void append_all(std::string& out, const std::array<char32_t, 3>& text) {
  for (const char32_t c : text) {
    if (c != 0) append_utf8(out, c);
  }
}

void append_upper(std::string& out, char32_t c) {
  if (c < 128) {
    out += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  } else if (const auto* special = special_case(c)) {
    append_all(out, special->upper);
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
  }
}

void append_title(std::string& out, char32_t c) {
  if (const auto* special = special_case(c)) {
    append_all(out, special->title);
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
  }
}

// Unicode's Cased and Case_Ignorable, as needed for the final sigma rule.
bool cased(char32_t c) {
  return is_lower(c) || is_upper(c) || is_title(c);
}
bool case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2019 || c == 0x2018 || c == 0x2024 ||
             c == 0x2027;
  }
}

bool final_sigma(const std::u32string& text, size_t at) {
  size_t before = at;
  while (before > 0 && case_ignorable(text[before - 1])) --before;
  if (before == 0 || !cased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && case_ignorable(text[after])) ++after;
  return after == text.size() || !cased(text[after]);
}

void append_lower(std::string& out, const std::u32string& text, size_t at) {
  const char32_t c = text[at];
  if (c < 128) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  } else if (c == 0x0130) {
    out += "i\xCC\x87";
  } else if (c == 0x03A3) {
    append_utf8(out, final_sigma(text, at) ? 0x03C2 : 0x03C3);
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

bool all_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 128; });
}

}  // namespace

CodePoint decode_at(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return {lead, 1};
  if (lead >= 0xC2 && lead < 0xE0 && continuation(text, at + 1)) {
    return {(static_cast<char32_t>(lead & 0x1F) << 6) | bits(text, at + 1), 2};
  }
  if (lead >= 0xE0 && lead < 0xF0 && continuation(text, at + 1) && continuation(text, at + 2)) {
    return {(static_cast<char32_t>(lead & 0x0F) << 12) | (bits(text, at + 1) << 6) | bits(text, at + 2), 3};
  }
  if (lead >= 0xF0 && lead < 0xF5 && continuation(text, at + 1) && continuation(text, at + 2) &&
      continuation(text, at + 3)) {
    return {(static_cast<char32_t>(lead & 0x07) << 18) | (bits(text, at + 1) << 12) |
                (bits(text, at + 2) << 6) | bits(text, at + 3),
            4};
  }
  return {lead, 1};
}

void append_utf8(std::string& out, char32_t c) {
  unicode::append(out, c);
}

size_t utf8_length(std::string_view text) {
  if (all_ascii(text)) return text.size();
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += decode_at(text, at).bytes) ++count;
  return count;
}

size_t byte_offset(std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += decode_at(text, at).bytes;
  return at;
}

std::u32string to_code_points(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const auto c = decode_at(text, at);
    out += c.value;
    at += c.bytes;
  }
  return out;
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : text) append_utf8(out, c);
  return out;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_alpha(char32_t c) {
  if (c < 128) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  const int k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) {
  return c < 128 ? c >= '0' && c <= '9' : category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) || (c >= 0x1369 && c <= 0x1371) ||
         (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) || (c >= 0x2488 && c <= 0x2490) ||
         (c >= 0x2776 && c <= 0x277E) || (c >= 0x2780 && c <= 0x2788) || (c >= 0x278A && c <= 0x2792);
}

bool is_numeric(char32_t c) {
  if (c < 128) return c >= '0' && c <= '9';
  const int k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool is_alnum(char32_t c) {
  return is_alpha(c) || is_numeric(c);
}

bool is_lower(char32_t c) {
  if (c < 128) return c >= 'a' && c <= 'z';
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA;
}

bool is_upper(char32_t c) {
  if (c < 128) return c >= 'A' && c <= 'Z';
  return category(c) == UTF8PROC_CATEGORY_LU;
}

bool is_title(char32_t c) {
  return c >= 128 && category(c) == UTF8PROC_CATEGORY_LT;
}

bool is_printable(char32_t c) {
  if (c < 128) return c >= 32 && c < 127;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

bool is_identifier_start(char32_t c) {
  return c == '_' || is_alpha(c) || (c >= 128 && category(c) == UTF8PROC_CATEGORY_NL);
}

bool is_identifier_part(char32_t c) {
  if (is_identifier_start(c) || is_decimal(c)) return true;
  if (c < 128) return false;
  const int k = category(c);
  return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_PC || c == 0xB7;
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const auto c = decode_at(text, at);
    append_upper(out, c.value);
    at += c.bytes;
  }
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (all_ascii(text)) {
    for (const char c : text) out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    return out;
  }
  const auto points = to_code_points(text);
  for (size_t i = 0; i < points.size(); ++i) append_lower(out, points, i);
  return out;
}

std::string to_title(std::string_view text) {
  const auto points = to_code_points(text);
  std::string out;
  out.reserve(text.size());
  bool inside = false;  // the previous character is cased
  for (size_t i = 0; i < points.size(); ++i) {
    if (inside) {
      append_lower(out, points, i);
    } else {
      append_title(out, points[i]);
    }
    inside = cased(points[i]);
  }
  return out;
}

std::string capitalize(std::string_view text) {
  const auto points = to_code_points(text);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < points.size(); ++i) {
    if (i == 0) {
      append_title(out, points[i]);
    } else {
      append_lower(out, points, i);
    }
  }
  return out;
}

std::string swap_case(std::string_view text) {
  const auto points = to_code_points(text);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < points.size(); ++i) {
    if (is_upper(points[i])) {
      append_lower(out, points, i);
    } else if (is_lower(points[i])) {
      append_upper(out, points[i]);
    } else {
      append_utf8(out, points[i]);
    }
  }
  return out;
}

std::string case_fold(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : to_code_points(text)) {
    utf8proc_int32_t folded[8];
    int boundary = UTF8PROC_BOUNDCLASS_START;
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded, 8, UTF8PROC_CASEFOLD, &boundary);
    if (count <= 0 || count > 8) {
      append_utf8(out, c);
      continue;
    }
    for (utf8proc_ssize_t i = 0; i < count; ++i) append_utf8(out, static_cast<char32_t>(folded[i]));
  }
  return out;
}

std::string_view strip(std::string_view text, const std::string* chars, bool left, bool right) {
  const auto set = chars != nullptr ? to_code_points(*chars) : std::u32string();
  const auto drop = [&](char32_t c) {
    return chars == nullptr ? is_space(c) : set.find(c) != std::u32string::npos;
  };
  while (left && !text.empty()) {
    const auto c = decode_at(text, 0);
    if (!drop(c.value)) break;
    text.remove_prefix(c.bytes);
  }
  while (right && !text.empty()) {
    size_t start = text.size() - 1;
    while (start > 0 && text.size() - start < 4 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80)
      --start;
    if (start + decode_at(text, start).bytes != text.size()) start = text.size() - 1;
    if (!drop(decode_at(text, start).value)) break;
    text.remove_suffix(text.size() - start);
  }
  return text;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const auto c = decode_at(text, at);
    const size_t end = at;
    at += c.bytes;
    if (!is_line_break(c.value)) continue;
    if (c.value == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(start, (keep_ends ? at : end) - start));
    start = at;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

size_t find_text(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // memmem takes linear time even with many partial matches; std::string_view::find does not.
  const void* hit = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return hit == nullptr ? std::string_view::npos
                        : static_cast<size_t>(static_cast<const char*>(hit) - text.data());
}

size_t rfind_text(std::string_view text, std::string_view needle) {
  if (needle.size() > text.size()) return std::string_view::npos;
  if (needle.empty()) return text.size();
  const std::string reversed(text.rbegin(), text.rend());
  const std::string wanted(needle.rbegin(), needle.rend());
  const size_t at = find_text(reversed, wanted, 0);
  return at == std::string_view::npos ? at : text.size() - at - needle.size();
}

}  // namespace quire::jinja
