#include "grammar/choice.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "grammar/expression.h"

namespace quire::grammar {
namespace {

// Builds the union of texts as a tree, so that texts with a common start share its expression and automata
// look at one alternative per byte.
class ChoiceTree {
 public:
  // texts [begin, end) without their first `start` bytes. The texts are sorted and differ; depth is the
  // number of branches above.
  Regular build(std::span<const std::string_view> texts, size_t start, int depth) {
    const std::string_view first = texts.front();
    const std::string_view last = texts.back();
    // Sorted, so what the first and the last have in common is common to all.
    size_t common = start;
    while (common < first.size() && common < last.size() && first[common] == last[common]) ++common;
    std::vector<Regular> sequence = bytes_of(first.substr(start, common - start));
    if (texts.size() > 1) sequence.push_back(branches(texts, common, depth));
    return concat(std::move(sequence));
  }

 private:
  // Bounds the recursion of everything that reads the expression.
  static constexpr int kMaxDepth = 64;

  Regular branches(std::span<const std::string_view> texts, size_t start, int depth) {
    std::vector<Regular> alternatives;
    for (size_t begin = 0; begin < texts.size();) {
      size_t end = begin + 1;
      if (texts[begin].size() > start && depth < kMaxDepth) {
        while (end < texts.size() && texts[end][start] == texts[begin][start]) ++end;
      }
      alternatives.push_back(build(texts.subspan(begin, end - begin), start, depth + 1));
      begin = end;
    }
    return any_of(std::move(alternatives));
  }

  std::vector<Regular> bytes_of(std::string_view text) {
    std::vector<Regular> parts;
    parts.reserve(text.size());
    for (const char c : text) {
      Regular& byte = bytes_[static_cast<uint8_t>(c)];
      if (byte == nullptr) byte = grammar::text(std::string_view(&c, 1));
      parts.push_back(byte);
    }
    return parts;
  }

  std::array<Regular, 256> bytes_;  // languages of one byte, null until they occur
};

}  // namespace

Result<Grammar> parse_choice(std::span<const std::string> choices, const Limits& limits) {
  if (choices.empty()) return invalid_argument("the list of choices is empty");
  std::vector<std::string_view> texts;
  size_t bytes = 0;
  for (const std::string& choice : choices) {
    if (!is_valid_utf8(choice)) return invalid_argument(cat("choice ", texts.size(), " is not valid UTF-8"));
    bytes += choice.size();
    texts.emplace_back(choice);
  }
  if (bytes > limits.specification_bytes || texts.size() > limits.rules_and_lexemes)
    return invalid_argument(cat("more than ", limits.rules_and_lexemes, " choices, or ",
                                limits.specification_bytes, " bytes in them"));
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  Grammar grammar;
  set_start(grammar, add_lexeme(grammar, ChoiceTree().build(texts, 0, 0)));
  return grammar;
}

}  // namespace quire::grammar
