#include "text/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace quire::unicode {

bool is_word(uint32_t cp) {
  constexpr CategorySet kWord = kLetter | kMark | set_of(kNd) | set_of(kNl) | set_of(kPc);
  if (sets_of(cp) & kWord) return true;
  // Other_Alphabetic other than letters and marks, and Join_Control.
  return (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
         (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189) || cp == 0x200C || cp == 0x200D;
}

uint32_t decode_before(std::string_view text, size_t end, size_t* length) {
  size_t begin = end - 1;
  while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return decode(text.data() + begin, length);
}

void append(std::string& out, uint32_t cp) {
  if (cp < 0x80) {
    out.push_back(static_cast<char>(cp));
  } else if (cp < 0x800) {
    out.push_back(static_cast<char>(0xC0 | cp >> 6));
    out.push_back(static_cast<char>(0x80 | (cp & 0x3F)));
  } else if (cp < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | cp >> 12));
    out.push_back(static_cast<char>(0x80 | (cp >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (cp & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | cp >> 18));
    out.push_back(static_cast<char>(0x80 | (cp >> 12 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (cp >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (cp & 0x3F)));
  }
}

Utf8State scan(std::string_view bytes, size_t* length) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return *length = 1, Utf8State::kComplete;
  if (lead < 0xC2 || lead > 0xF4) return *length = 1, Utf8State::kInvalid;
  const size_t need = sequence_length(lead);
  // The range of the second byte depends on the first: no overlong forms, no surrogates, nothing above
  // U+10FFFF.
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < need; ++i) {
    if (i == bytes.size()) return *length = i, Utf8State::kIncomplete;
    const uint8_t b = byte(i);
    if (b < (i == 1 ? low : 0x80) || b > (i == 1 ? high : 0xBF)) return *length = i, Utf8State::kInvalid;
  }
  return *length = need, Utf8State::kComplete;
}

namespace {

// The first position at or after `from` that is not ASCII.
size_t skip_ascii(std::string_view text, size_t from) {
  while (from + 8 <= text.size()) {
    uint64_t word;
    std::memcpy(&word, text.data() + from, 8);
    if (word & 0x8080808080808080ull) break;
    from += 8;
  }
  while (from < text.size() && static_cast<uint8_t>(text[from]) < 0x80) ++from;
  return from;
}

}  // namespace

bool is_valid(std::string_view text) {
  size_t length = 0;
  for (size_t i = skip_ascii(text, 0); i < text.size(); i = skip_ascii(text, i + length)) {
    if (scan(text.substr(i, 4), &length) != Utf8State::kComplete) return false;
  }
  return true;
}

std::string to_valid(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const size_t ascii_end = skip_ascii(bytes, i);
    out.append(bytes, i, ascii_end - i);
    if ((i = ascii_end) == bytes.size()) break;
    size_t length = 0;
    if (scan(bytes.substr(i, 4), &length) == Utf8State::kComplete) {
      out.append(bytes, i, length);
    } else {
      out += "\xEF\xBF\xBD";
    }
    i += length;
  }
  return out;
}

size_t count(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(),
                                           [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

void append_lower(std::string& out, uint32_t cp) {
  if (cp < 0x80) {
    out.push_back(static_cast<char>(cp >= 'A' && cp <= 'Z' ? cp + 32 : cp));
    return;
  }
  if (cp == 0x130) {  // the only character whose lowercase has two characters: i and a dot above
    out += "i\xCC\x87";
    return;
  }
  const tables::LowerRun* end = tables::kLowerRuns + tables::kNumLowerRuns;
  const tables::LowerRun* run =
      std::partition_point(tables::kLowerRuns, end, [cp](const tables::LowerRun& r) { return r.last < cp; });
  if (run != end && cp >= run->first && (cp - run->first) % run->step == 0) {
    cp = static_cast<uint32_t>(static_cast<int32_t>(cp) + run->delta);
  }
  append(out, cp);
}

bool is_normalized(std::string_view text, NormalForm form) {
  const uint8_t bit = form == NormalForm::kNfc ? kComposing : kDecomposing;
  size_t length = 0;
  for (size_t i = skip_ascii(text, 0); i < text.size(); i = skip_ascii(text, i + length)) {
    if (flags_of(decode(text.data() + i, &length)) & bit) return false;
  }
  return true;
}

namespace {

// Appends the normal form of text without inert characters. Marks are sorted here, with a stable sort per
// run, because utf8proc takes quadratic time for long runs of marks.
void append_normalized(std::string& out, std::string_view text, utf8proc_option_t options,
                       std::vector<utf8proc_int32_t>& buffer) {
  constexpr size_t kLongestDecomposition = 32;
  buffer.clear();
  size_t length = 0;
  for (size_t i = 0; i < text.size(); i += length) {
    const auto cp = static_cast<utf8proc_int32_t>(decode(text.data() + i, &length));
    const size_t used = buffer.size();
    buffer.resize(used + kLongestDecomposition);
    int boundclass = UTF8PROC_BOUNDCLASS_START;
    const auto n =
        utf8proc_decompose_char(cp, buffer.data() + used, kLongestDecomposition, options, &boundclass);
    if (n < 0 || static_cast<size_t>(n) > kLongestDecomposition) throw Error("Unicode normalization failed");
    buffer.resize(used + static_cast<size_t>(n));
  }
  const auto combining = [](utf8proc_int32_t cp) { return utf8proc_get_property(cp)->combining_class; };
  for (size_t i = 0; i < buffer.size(); ++i) {
    if (combining(buffer[i]) == 0) continue;
    size_t end = i + 1;
    while (end < buffer.size() && combining(buffer[end]) != 0) ++end;
    const auto first = buffer.begin() + static_cast<std::ptrdiff_t>(i);
    const auto last = buffer.begin() + static_cast<std::ptrdiff_t>(end);
    if (end - i > 1) {
      std::stable_sort(first, last, [&](auto a, auto b) { return combining(a) < combining(b); });
    }
    i = end;
  }
  auto n = static_cast<utf8proc_ssize_t>(buffer.size());
  if (options & UTF8PROC_COMPOSE) n = utf8proc_normalize_utf32(buffer.data(), n, options);
  if (n < 0) throw Error("Unicode normalization failed");
  for (utf8proc_ssize_t i = 0; i < n; ++i) append(out, static_cast<uint32_t>(buffer[static_cast<size_t>(i)]));
}

}  // namespace

std::string normalize(std::string_view text, NormalForm form) {
  if (is_normalized(text, form)) return std::string(text);
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const auto options = static_cast<utf8proc_option_t>((compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                                      (compatible ? UTF8PROC_COMPAT : 0) | UTF8PROC_STABLE);
  const uint8_t bit = form == NormalForm::kNfc ? kComposing : kDecomposing;
  std::string out;
  out.reserve(text.size() + 16);
  std::vector<utf8proc_int32_t> buffer;
  // Only ranges around characters that can change are passed to utf8proc. A range starts at the last starter
  // before the first such character, because they may compose. It ends before the next character that no rule
  // affects.
  size_t done = 0;     // text[..done) is written
  size_t starter = 0;  // the last character before i
  size_t length = 0;
  for (size_t i = 0; i < text.size();) {
    const uint32_t cp = decode(text.data() + i, &length);
    const uint8_t flags = flags_of(cp);
    if (!(flags & bit)) {
      starter = i;
      i += length;
      continue;
    }
    size_t begin = starter;
    // An inert starter does not compose.
    if (begin < i) {
      size_t n = 0;
      if (flags_of(decode(text.data() + begin, &n)) & kInert) begin = i;
    }
    size_t end = i + length;
    while (end < text.size()) {
      size_t n = 0;
      if (!(flags_of(decode(text.data() + end, &n)) & bit)) break;
      end += n;
    }
    out.append(text, done, begin - done);
    append_normalized(out, text.substr(begin, end - begin), options, buffer);
    done = starter = i = end;
  }
  out.append(text, done);
  return out;
}

}  // namespace quire::unicode
