#include "text/tokenizer/normalizer.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "text/tokenizer/bpe.h"

namespace quire::tokenizer {

namespace {

namespace u = quire::unicode;

template <typename OnCharacter>
void for_each_character(std::string_view text, const OnCharacter& on_character) {
  size_t length = 0;
  for (size_t i = 0; i < text.size(); i += length) {
    const uint32_t cp = u::decode(text.data() + i, &length);
    on_character(cp, text.substr(i, length));
  }
}

void apply(const Lowercase&, std::string_view text, std::string& out) {
  for_each_character(text, [&](uint32_t cp, std::string_view) { u::append_lower(out, cp); });
}

std::string_view stripped(const StripSpace& strip, std::string_view text) {
  size_t length = 0;
  while (strip.left && !text.empty() && u::is_space(u::decode(text.data(), &length)))
    text.remove_prefix(length);
  while (strip.right && !text.empty() && u::is_space(u::decode_before(text, text.size(), &length)))
    text.remove_suffix(length);
  return text;
}

void apply(const StripAccents&, std::string_view text, std::string& out) {
  for_each_character(text, [&](uint32_t cp, std::string_view bytes) {
    if (!(u::flags_of(cp) & u::kLegacyMark)) out += bytes;
  });
}

// The CJK blocks that BERT surrounds with spaces.
bool is_chinese(uint32_t cp) {
  return (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0x3400 && cp <= 0x4DBF) ||
         (cp >= 0x20000 && cp <= 0x2A6DF) || (cp >= 0x2A700 && cp <= 0x2B81F) ||
         (cp >= 0x2B920 && cp <= 0x2CEAF) || (cp >= 0xF900 && cp <= 0xFAFF) ||
         (cp >= 0x2F800 && cp <= 0x2FA1F);
}

void apply(const BertNormalizer& bert, std::string_view text, std::string& out) {
  std::string cleaned;
  cleaned.reserve(text.size() + 16);
  bool ascii = true;
  for_each_character(text, [&](uint32_t cp, std::string_view bytes) {
    if (cp > 0x20 && cp < 0x7F) {
      cleaned.push_back(static_cast<char>(cp));
      return;
    }
    if (bert.clean_text) {
      if (u::flags_of(cp) & u::kBertRemoved) return;
      if (u::is_space(cp)) {
        cleaned.push_back(' ');
        return;
      }
    }
    ascii = ascii && cp < 0x80;
    if (bert.chinese_characters && is_chinese(cp)) {
      cleaned.push_back(' ');
      cleaned += bytes;
      cleaned.push_back(' ');
    } else {
      cleaned += bytes;
    }
  });
  if (bert.strip_accents && !ascii) {
    const std::string decomposed = u::normalize(cleaned, u::NormalForm::kNfd);
    cleaned.clear();
    for_each_character(decomposed, [&](uint32_t cp, std::string_view bytes) {
      if (cp < 0x80 || !(u::flags_of(cp) & u::kLegacyNonspacing)) cleaned += bytes;
    });
  }
  if (bert.lowercase) {
    apply(Lowercase{}, cleaned, out);
  } else {
    out += cleaned;
  }
}

// The rules of neural machine translation models (SentencePiece's "nmt").
void apply(const Nmt&, std::string_view text, std::string& out) {
  for_each_character(text, [&](uint32_t cp, std::string_view bytes) {
    const bool removed = (cp >= 1 && cp <= 8) || cp == 0xB || (cp >= 0xE && cp <= 0x1F) || cp == 0x7F ||
                         cp == 0x8F || cp == 0x9F;
    const bool space = cp == 9 || cp == 0xA || cp == 0xC || cp == 0xD || cp == 0x1680 ||
                       (cp >= 0x200B && cp <= 0x200F) || cp == 0x2028 || cp == 0x2029 || cp == 0x2581 ||
                       cp == 0xFEFF || cp == 0xFFFD;
    if (space) {
      out.push_back(' ');
    } else if (!removed) {
      out += bytes;
    }
  });
}

void apply(const ByteCharacters&, std::string_view text, std::string& out) {
  for (const char c : text) u::append(out, character_of_byte(static_cast<uint8_t>(c)));
}

void apply(const ReplaceString& replace, std::string_view text, std::string& out) {
  append_replaced(out, text, replace.pattern, replace.content);
}
void apply(const ReplaceRegex& replace, std::string_view text, std::string& out) {
  append_replaced(out, text, replace.pattern, replace.content);
}
void apply(const Prepend& prepend, std::string_view text, std::string& out) {
  out += prepend.text;
  out += text;
}
void apply(const Precompiled& precompiled, std::string_view text, std::string& out) {
  normalize_by_graphemes(precompiled.map, text, out);
}
void apply(const UnicodeForm& step, std::string_view text, std::string& out) {
  out = u::normalize(text, step.form);
}
void apply(const StripSpace& step, std::string_view text, std::string& out) {
  out = stripped(step, text);
}

// A fast check whether the step leaves the text unchanged.
bool leaves_alone(const NormalizerStep& step, std::string_view text) {
  if (text.empty()) return true;
  if (const auto* form = std::get_if<UnicodeForm>(&step)) return u::is_normalized(text, form->form);
  if (const auto* replace = std::get_if<ReplaceString>(&step)) {
    return text.find(replace->pattern) == std::string_view::npos || replace->pattern.empty();
  }
  return false;
}

std::optional<std::string> decode_base64(std::string_view text) {
  std::string out;
  out.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=' || c == '\n' || c == '\r') continue;
    const int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (digit < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if ((count += 6) >= 8) out.push_back(static_cast<char>(bits >> (count -= 8) & 0xFF));
  }
  return out;
}

NormalizerStep read_replacement(const JsonPlace& place) {
  const Pattern pattern = read_pattern(place.member("pattern"));
  const std::string content(place.member("content").string());
  if (pattern.is_regex) return ReplaceRegex{Regex::compile(pattern.regex, place.path()), content};
  return ReplaceString{std::string(pattern.literal), content};
}

NormalizerStep read_bert(const JsonPlace& place) {
  const bool lowercase = place.member("lowercase").boolean_or(true);
  return BertNormalizer{place.member("clean_text").boolean_or(true),
                        place.member("handle_chinese_chars").boolean_or(true),
                        place.member("strip_accents").boolean_or(lowercase), lowercase};
}

NormalizerStep read_precompiled(const JsonPlace& place) {
  const auto blob = decode_base64(place.member("precompiled_charsmap").string_or(""));
  if (!blob) place.member("precompiled_charsmap").fail("is not base64");
  Precompiled step;
  step.map.load(*blob, place.path());
  return step;
}

using ReadNormalizerStep = NormalizerStep (*)(const JsonPlace&);
struct NormalizerStepType {
  std::string_view type;
  ReadNormalizerStep read;
};
constexpr NormalizerStepType kNormalizerTypes[] = {
    {"NFC", [](const JsonPlace&) -> NormalizerStep { return UnicodeForm{u::NormalForm::kNfc}; }},
    {"NFD", [](const JsonPlace&) -> NormalizerStep { return UnicodeForm{u::NormalForm::kNfd}; }},
    {"NFKC", [](const JsonPlace&) -> NormalizerStep { return UnicodeForm{u::NormalForm::kNfkc}; }},
    {"NFKD", [](const JsonPlace&) -> NormalizerStep { return UnicodeForm{u::NormalForm::kNfkd}; }},
    {"Lowercase", [](const JsonPlace&) -> NormalizerStep { return Lowercase{}; }},
    {"Strip",
     [](const JsonPlace& p) -> NormalizerStep {
       return StripSpace{p.member("strip_left").boolean_or(true), p.member("strip_right").boolean_or(true)};
     }},
    {"StripAccents", [](const JsonPlace&) -> NormalizerStep { return StripAccents{}; }},
    {"BertNormalizer", read_bert},
    {"Replace", read_replacement},
    {"Prepend",
     [](const JsonPlace& p) -> NormalizerStep { return Prepend{std::string(p.member("prepend").string())}; }},
    {"Nmt", [](const JsonPlace&) -> NormalizerStep { return Nmt{}; }},
    {"ByteLevel", [](const JsonPlace&) -> NormalizerStep { return ByteCharacters{}; }},
    {"Precompiled", read_precompiled},
};

void read_steps(const JsonPlace& place, Normalizer& steps, int depth) {
  if (!place.present()) return;
  const std::string_view type = place.type();
  if (type == "Sequence") {
    if (depth == kDeepestSequence) place.fail("Sequences are nested too deep");
    const JsonPlace list = place.member("normalizers");
    list.expect_array();
    for (rapidjson::SizeType i = 0; i < list.value().Size(); ++i)
      read_steps(list.element(i), steps, depth + 1);
    return;
  }
  for (const NormalizerStepType& known : kNormalizerTypes) {
    if (known.type == type) {
      steps.push_back(known.read(place));
      return;
    }
  }
  place.fail("the normalizer type \"" + std::string(type) + "\" is not supported");
}

}  // namespace

Pattern read_pattern(const JsonPlace& place) {
  Pattern pattern;
  if (place.present() && place.value().IsString()) {
    pattern.literal = place.string();
    return pattern;
  }
  const JsonPlace literal = place.member("String"), regex = place.member("Regex");
  if (literal.present() == regex.present()) place.fail("must have either \"String\" or \"Regex\"");
  pattern.is_regex = regex.present();
  (pattern.is_regex ? pattern.regex : pattern.literal) = (pattern.is_regex ? regex : literal).string();
  return pattern;
}

void append_replaced(std::string& out, std::string_view text, std::string_view pattern,
                     std::string_view content) {
  if (pattern.empty()) {
    out += text;
    return;
  }
  size_t done = 0;
  for (size_t at = text.find(pattern); at != std::string_view::npos; at = text.find(pattern, done)) {
    out.append(text, done, at - done);
    out += content;
    done = at + pattern.size();
  }
  out.append(text, done);
}

void append_replaced(std::string& out, std::string_view text, const Regex& pattern,
                     std::string_view content) {
  Regex::Search search(pattern, text);
  size_t done = 0, begin = 0, end = 0;
  while (search.next(&begin, &end)) {
    out.append(text, done, begin - done);
    out += content;
    done = end;
  }
  out.append(text, done);
}

Normalizer read_normalizer(const JsonPlace& place) {
  Normalizer steps;
  read_steps(place, steps, 0);
  return steps;
}

bool lowers_case(const Normalizer& normalizer) {
  return std::ranges::any_of(normalizer, [](const NormalizerStep& step) {
    const auto* bert = std::get_if<BertNormalizer>(&step);
    return std::holds_alternative<Lowercase>(step) || (bert != nullptr && bert->lowercase);
  });
}

std::string_view normalize(const Normalizer& normalizer, std::string_view text, std::string& buffer,
                           std::string& other) {
  std::string* target = &buffer;
  std::string* spare = &other;
  for (const NormalizerStep& step : normalizer) {
    if (leaves_alone(step, text)) continue;
    target->clear();
    target->reserve(text.size() + 16);
    std::visit([&](const auto& s) { apply(s, text, *target); }, step);
    text = *target;
    std::swap(target, spare);
  }
  return text;
}

}  // namespace quire::tokenizer
