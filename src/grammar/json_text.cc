#include "grammar/json_text.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace quire::grammar {
namespace {

using Kind = RegularNode::Kind;

Regular byte_set(std::string_view members) {
  ByteSet set;
  for (const char c : members) set.set(static_cast<uint8_t>(c));
  return bytes(set);
}

Regular hex_digit() {
  static const Regular node = byte_set("0123456789abcdefABCDEF");
  return node;
}

// \uXXXX for all code units of the basic plane but surrogates, and pairs of surrogates.
Regular unicode_escape() {
  const Regular before_surrogates = concat({byte_set("0123456789abcefABCEF"), repeat(hex_digit(), 3, 3)});
  const Regular low_d = concat({byte_set("dD"), byte_set("01234567"), repeat(hex_digit(), 2, 2)});
  const Regular high = concat({byte_set("dD"), byte_set("89abAB"), repeat(hex_digit(), 2, 2)});
  const Regular low = concat({byte_set("dD"), byte_set("cdefCDEF"), repeat(hex_digit(), 2, 2)});
  return concat({text("\\u"), any_of({before_surrogates, low_d, concat({high, text("\\u"), low})})});
}

// One character, spelled in any way.
Regular any_unit() {
  static const Regular node = [] {
    static constexpr std::array<CharacterRange, 3> kEscaped = {{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}};
    return any_of(
        {characters_except(kEscaped), concat({text("\\"), byte_set("\"\\/bfnrt")}), unicode_escape()});
  }();
  return node;
}

// The spellings of one byte of a content. Bytes of longer characters stand for themselves.
Regular byte_spellings(uint8_t byte) {
  static constexpr std::string_view kNamed = "\b\f\n\r\t";
  static constexpr std::string_view kNames = "bfnrt";
  const char c = static_cast<char>(byte);
  if (c == '"' || c == '\\') return text(std::string{'\\', c});
  if (byte >= 0x20) return text(std::string_view(&c, 1));
  static constexpr std::string_view kDigits = "0123456789abcdef";
  const char last = kDigits[byte % 16];
  std::vector<Regular> spellings;
  if (const size_t i = kNamed.find(c); i != std::string_view::npos)
    spellings.push_back(text(std::string{'\\', kNames[i]}));
  std::string last_digit(1, last);
  if (last >= 'a') last_digit += static_cast<char>(last - 'a' + 'A');
  spellings.push_back(concat({text(byte < 16 ? "\\u000" : "\\u001"), byte_set(last_digit)}));
  return any_of(std::move(spellings));
}

Regular set_spellings(const ByteSet& set) {
  ByteSet plain;
  std::vector<Regular> spellings;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (!set[byte]) continue;
    if (byte >= 0x20 && byte != '"' && byte != '\\') {
      plain.set(byte);
    } else {
      spellings.push_back(byte_spellings(static_cast<uint8_t>(byte)));
    }
  }
  if (set['/']) spellings.push_back(text("\\/"));
  spellings.push_back(bytes(plain));
  return any_of(std::move(spellings));
}

// Turns languages of contents into languages of bodies, part by part: each part of a content is spelled
// alone, so concatenation, union and intersection carry over. The complement is taken among the bodies that
// leave characters beyond ASCII as they are, because the parts of a language allow no more than those.
class BodyBuilder {
 public:
  Regular body(const Regular& content) {
    if (const auto found = memo_.find(content.get()); found != memo_.end()) return found->second;
    Regular result = build(*content, content);
    memo_.emplace(content.get(), result);
    return result;
  }

 private:
  std::vector<Regular> bodies(const std::vector<Regular>& contents) {
    std::vector<Regular> result;
    result.reserve(contents.size());
    for (const Regular& content : contents) result.push_back(body(content));
    return result;
  }

  Regular build(const RegularNode& node, const Regular& content) {
    if (content == any_character()) return any_unit();
    switch (node.kind) {
      case Kind::kNothing:
      case Kind::kEmpty:
        return content;
      case Kind::kBytes: {
        if (node.bytes.count() > 1) return set_spellings(node.bytes);
        static const std::array<Regular, 256> spellings_of_bytes = [] {
          std::array<Regular, 256> spellings;
          for (size_t byte = 0; byte < 256; ++byte) spellings[byte] = set_spellings(ByteSet().set(byte));
          return spellings;
        }();
        return spellings_of_bytes[node.bytes._Find_first()];
      }
      case Kind::kConcat:
        return concat(bodies(node.parts));
      case Kind::kUnion:
        return any_of(bodies(node.parts));
      case Kind::kIntersection:
        return all_of(bodies(node.parts));
      case Kind::kComplement:
        return minus(plain_bodies(), body(node.parts[0]));
      case Kind::kRepeat:
        return repeat(body(node.parts[0]), node.min, node.max);
    }
    return nothing();
  }

  static Regular plain_bodies() {
    static const Regular node = [] {
      static constexpr std::array<CharacterRange, 1> kAll = {{{0, 0x10FFFF}}};
      BodyBuilder builder;
      // Not any_character(), which would allow escapes.
      return repeat(builder.body(any_of({characters(kAll), nothing()})), 0);
    }();
    return node;
  }

  std::unordered_map<const RegularNode*, Regular> memo_;
};

Regular texts_from(const std::vector<std::string>& texts, size_t begin, size_t end, size_t offset) {
  // texts[begin, end) are sorted and agree in the first `offset` bytes.
  std::vector<Regular> alternatives;
  if (begin < end && texts[begin].size() == offset) {
    alternatives.push_back(empty_text());
    ++begin;
  }
  while (begin < end) {
    size_t next = begin + 1;
    while (next < end && texts[next][offset] == texts[begin][offset]) ++next;
    // A long common part is one text: the recursion is as deep as there are branches.
    const std::string& first = texts[begin];
    const std::string& last = texts[next - 1];
    size_t common = offset + 1;
    while (common < first.size() && common < last.size() && first[common] == last[common]) ++common;
    alternatives.push_back(concat({text(std::string_view(first).substr(offset, common - offset)),
                                   texts_from(texts, begin, next, common)}));
    begin = next;
  }
  return any_of(std::move(alternatives));
}

}  // namespace

Regular any_content() {
  static const Regular node = repeat(any_character(), 0);
  return node;
}

Regular content_of_length(uint32_t min, uint32_t max) {
  if (min == 0 && max == RegularNode::kUnlimited) return any_content();
  if (min > max) return nothing();
  return repeat(any_character(), min, max);
}

Regular any_text(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  if (texts.empty()) return nothing();
  return texts_from(texts, 0, texts.size(), 0);
}

Regular json_string(const Regular& content) {
  BodyBuilder builder;
  return concat({text("\""), builder.body(content), text("\"")});
}

Regular json_space(JsonSpacing spacing) {
  static const Regular free =
      any_of({empty_text(), text(" "), concat({text("\n"), repeat(text(" "), 0, 64)})});
  return spacing == JsonSpacing::kFree ? free : empty_text();
}

Regular json_comma(JsonSpacing spacing) {
  if (spacing == JsonSpacing::kSpaced) return text(", ");
  return concat({json_space(spacing), text(","), json_space(spacing)});
}

Regular json_colon(JsonSpacing spacing) {
  if (spacing == JsonSpacing::kSpaced) return text(": ");
  return concat({json_space(spacing), text(":"), json_space(spacing)});
}

}  // namespace quire::grammar
