#include "grammar/regex_tree.h"

#include <algorithm>
#include <utility>

namespace quire::grammar {
namespace {

using NodeKind = RegexNode::Kind;

bool is_plain(const RegexNode& node) {
  return node.kind == NodeKind::kPlain;
}

bool all_plain(const std::vector<RegexNode>& parts) {
  return std::all_of(parts.begin(), parts.end(), is_plain);
}

std::vector<Regular> languages_of(const std::vector<RegexNode>& parts) {
  std::vector<Regular> languages;
  languages.reserve(parts.size());
  for (const RegexNode& part : parts) languages.push_back(part.language);
  return languages;
}

bool any_looks_ahead(const std::vector<RegexNode>& parts) {
  return std::any_of(parts.begin(), parts.end(), [](const RegexNode& part) { return part.looks_ahead; });
}

bool contains(const RegexNode& node, NodeKind kind) {
  return node.kind == kind || std::any_of(node.parts.begin(), node.parts.end(),
                                          [kind](const RegexNode& part) { return contains(part, kind); });
}

// Whether `^` occurs within (?!...), where it makes a text match that does not match later.
bool negates_start(const RegexNode& node) {
  if (node.kind == NodeKind::kNotAhead) return contains(node, NodeKind::kStart);
  return std::any_of(node.parts.begin(), node.parts.end(), negates_start);
}

// All texts that may come from some position on to the end.
struct Tail {
  Regular later;  // where other text came before
  Regular first;  // at the start of the text
};

// Translates from the end to the start: each node is given the texts that may follow it up to the end, so
// that anchors and look-ahead become operations on these.
class TailTranslator {
 public:
  TailTranslator(const RegexNode& tree, const Regular& any_text, const Regular& newline, MemoryBudget& budget)
      : any_text_(any_text),
        last_newline_(any_of({empty_text(), newline})),
        negates_start_(negates_start(tree)),
        budget_(budget) {}

  Tail translate(const RegexNode& node, const Tail& rest);

 private:
  Regular join(const Regular& a, const Regular& b);
  Regular either(Regular a, Regular b);
  Regular both(const Regular& a, const Regular& b);
  Tail translate_repeat(const RegexNode& node, const Tail& rest);
  Tail translate_look_ahead(const RegexNode& node, const Tail& rest);

  Regular any_text_;
  Regular last_newline_;
  bool negates_start_;
  MemoryBudget& budget_;
};

Regular TailTranslator::join(const Regular& a, const Regular& b) {
  return budget_.charge(a->parts.size() + b->parts.size()) ? concat({a, b}) : nothing();
}

Regular TailTranslator::either(Regular a, Regular b) {
  if (a == b) return a;
  return budget_.charge(a->parts.size() + b->parts.size()) ? any_of({std::move(a), std::move(b)}) : nothing();
}

Regular TailTranslator::both(const Regular& a, const Regular& b) {
  if (a == b || b == any_text_ || a->kind == RegularNode::Kind::kNothing) return a;
  if (a == any_text_) return b;
  if (a->kind == RegularNode::Kind::kEmpty) return b->nullable ? a : nothing();
  return budget_.charge(a->parts.size() + b->parts.size()) ? all_of({a, b}) : nothing();
}

Tail TailTranslator::translate_repeat(const RegexNode& node, const Tail& rest) {
  // Only `^` occurs in the part, so its language does not depend on what follows, and only the first
  // iteration can be at the start. Iterations that match no text can be left out.
  const RegexNode& part = node.parts[0];
  const Tail after{join(repeat(part.language, 0), rest.later), rest.first};
  const Regular at_start = translate(part, after).first;
  return {join(repeat(part.language, node.min), rest.later),
          node.min == 0 ? either(rest.first, at_start) : at_start};
}

Tail TailTranslator::translate_look_ahead(const RegexNode& node, const Tail& rest) {
  const Tail ahead = translate(node.parts[0], {any_text_, any_text_});
  if (node.kind == NodeKind::kAhead) return {both(rest.later, ahead.later), both(rest.first, ahead.first)};
  const auto without = [&](const Regular& a, const Regular& b) {
    if (b->kind == RegularNode::Kind::kNothing) return a;
    return budget_.charge(2) ? minus(a, b) : nothing();
  };
  return {without(rest.later, ahead.later), without(rest.first, ahead.first)};
}

Tail TailTranslator::translate(const RegexNode& node, const Tail& rest) {
  if (budget_.exceeded()) return {nothing(), nothing()};
  const auto empty_if_ended = [](const Regular& tail) { return tail->nullable ? empty_text() : nothing(); };
  switch (node.kind) {
    case NodeKind::kPlain: {
      Regular later = join(node.language, rest.later);
      if (rest.first == rest.later || !node.language->nullable) return {later, later};
      // Without `^` in (?!...), what matches later also matches at the start.
      Regular first = negates_start_ ? join(minus(node.language, empty_text()), rest.later) : later;
      return {std::move(later), either(std::move(first), rest.first)};
    }
    case NodeKind::kStart:
      return {nothing(), rest.first};
    case NodeKind::kEnd:
      return {empty_if_ended(rest.later), empty_if_ended(rest.first)};
    case NodeKind::kEndOrNewline:
      return {both(rest.later, last_newline_), both(rest.first, last_newline_)};
    case NodeKind::kConcat: {
      Tail tail = rest;
      for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part) tail = translate(*part, tail);
      return tail;
    }
    case NodeKind::kUnion: {
      std::vector<Regular> later;
      std::vector<Regular> first;
      bool same = true;
      for (const RegexNode& part : node.parts) {
        Tail tail = translate(part, rest);
        same = same && tail.later == tail.first;
        budget_.charge(tail.later->parts.size() + tail.first->parts.size());
        later.push_back(std::move(tail.later));
        first.push_back(std::move(tail.first));
      }
      Regular all_later = any_of(std::move(later));
      return {all_later, same ? all_later : any_of(std::move(first))};
    }
    case NodeKind::kRepeat:
      return translate_repeat(node, rest);
    case NodeKind::kAhead:
    case NodeKind::kNotAhead:
      return translate_look_ahead(node, rest);
  }
  return {nothing(), nothing()};
}

}  // namespace

RegexNode plain_node(Regular language) {
  return {.kind = NodeKind::kPlain, .language = std::move(language), .parts = {}};
}

RegexNode assertion_node(NodeKind kind, std::vector<RegexNode> parts) {
  return {.kind = kind,
          .language = nothing(),
          .parts = std::move(parts),
          .looks_ahead = kind != NodeKind::kStart};
}

RegexNode concat_node(std::vector<RegexNode> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  Regular language = concat(languages_of(parts));
  if (all_plain(parts)) return plain_node(std::move(language));
  const bool looks_ahead = any_looks_ahead(parts);
  return {.kind = NodeKind::kConcat,
          .language = std::move(language),
          .parts = std::move(parts),
          .looks_ahead = looks_ahead};
}

RegexNode union_node(std::vector<RegexNode> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  Regular language = any_of(languages_of(parts));
  if (all_plain(parts)) return plain_node(std::move(language));
  const bool looks_ahead = any_looks_ahead(parts);
  return {.kind = NodeKind::kUnion,
          .language = std::move(language),
          .parts = std::move(parts),
          .looks_ahead = looks_ahead};
}

std::optional<RegexNode> repeat_node(RegexNode part, uint32_t min, uint32_t max) {
  if (max == 0) return plain_node(empty_text());
  if (is_plain(part)) return plain_node(repeat(std::move(part.language), min, max));
  if (min == 1 && max == 1) return part;
  if (min == 0 && max == 1) {
    std::vector<RegexNode> parts;
    parts.push_back(std::move(part));
    parts.push_back(plain_node(empty_text()));
    return union_node(std::move(parts));
  }
  if (part.looks_ahead || min > 1 || max != RegularNode::kUnlimited) return std::nullopt;
  Regular language = repeat(part.language, min);
  std::vector<RegexNode> parts;
  parts.push_back(std::move(part));
  return RegexNode{
      .kind = NodeKind::kRepeat, .language = std::move(language), .parts = std::move(parts), .min = min};
}

std::optional<Regular> regex_language(const RegexNode& tree, bool search, const Regular& any_text,
                                      const Regular& newline, MemoryBudget& budget) {
  const Regular around = search ? any_text : empty_text();
  TailTranslator translator(tree, any_text, newline, budget);
  const Tail tail = translator.translate(tree, {around, around});
  Regular language = tail.first;
  if (search) {
    const bool negated = negates_start(tree);
    Regular later = concat({negated ? minus(any_text, empty_text()) : any_text, tail.later});
    language = tail.first == tail.later && !negated ? later : any_of({tail.first, later});
  }
  if (budget.exceeded()) return std::nullopt;
  return language;
}

}  // namespace quire::grammar
