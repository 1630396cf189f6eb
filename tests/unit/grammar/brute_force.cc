#include "unit/grammar/brute_force.h"

#include <algorithm>
#include <utility>

namespace quire::grammar {

ShortStrings::ShortStrings() {
  strings_.push_back("");
  for (size_t i = 0; i < strings_.size() && strings_[i].size() < kLength; ++i) {
    for (const char symbol : kSymbols) strings_.push_back(strings_[i] + symbol);
  }
  for (const std::string& text : strings_) {
    std::vector<Split> splits;
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      splits.push_back({static_cast<uint32_t>(index_of(std::string_view(text).substr(0, cut))),
                        static_cast<uint32_t>(index_of(std::string_view(text).substr(cut)))});
    }
    splits_.push_back(std::move(splits));
  }
}

size_t ShortStrings::index_of(std::string_view text) {
  size_t index = 0;
  for (const char c : text) {
    size_t symbol = 0;
    while (kSymbols[symbol] != c) ++symbol;
    index = index * 3 + symbol + 1;
  }
  return index;
}

ShortStrings::Set ShortStrings::empty_text() const {
  Set set(strings_.size());
  set[0] = true;
  return set;
}

ShortStrings::Set ShortStrings::concat(const Set& a, const Set& b) const {
  Set set(strings_.size());
  for (size_t i = 0; i < set.size(); ++i) {
    for (const Split& split : splits_[i]) {
      if (a[split.first] && b[split.second]) set[i] = true;
    }
  }
  return set;
}

ShortStrings::Set ShortStrings::strings_of(const Regular& regular) const {
  using Kind = RegularNode::Kind;
  std::vector<Set> parts;
  for (const Regular& part : regular->parts) parts.push_back(strings_of(part));
  Set set(strings_.size());
  switch (regular->kind) {
    case Kind::kNothing:
      break;
    case Kind::kEmpty:
      return empty_text();
    case Kind::kBytes:
      for (const char c : {'a', 'b'})
        set[index_of(std::string(1, c))] = regular->bytes.test(static_cast<size_t>(c));
      break;
    case Kind::kConcat:
      set = parts[0];
      for (size_t i = 1; i < parts.size(); ++i) set = concat(set, parts[i]);
      break;
    case Kind::kUnion:
      for (const Set& part : parts)
        for (size_t i = 0; i < set.size(); ++i) set[i] = set[i] || part[i];
      break;
    case Kind::kIntersection:
      set = parts[0];
      for (const Set& part : parts)
        for (size_t i = 0; i < set.size(); ++i) set[i] = set[i] && part[i];
      break;
    case Kind::kComplement:
      for (size_t i = 0; i < set.size(); ++i)
        set[i] = !parts[0][i] && strings_[i].find('T') == std::string::npos;
      break;
    case Kind::kRepeat: {
      Set power = empty_text();
      for (uint32_t count = 0; count <= std::min<uint32_t>(regular->max, regular->min + kLength); ++count) {
        if (count > 0) power = concat(power, parts[0]);
        if (count < regular->min) continue;
        for (size_t i = 0; i < set.size(); ++i) set[i] = set[i] || power[i];
      }
      break;
    }
  }
  return set;
}

ShortStrings::Set ShortStrings::sentences(const Grammar& grammar) const {
  std::vector<Set> lexemes;
  for (const Regular& lexeme : grammar.lexemes) lexemes.push_back(strings_of(lexeme));
  Set token(strings_.size());
  token[index_of("T")] = true;
  std::vector<Set> rules(grammar.rules.size(), Set(strings_.size()));
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t r = 0; r < rules.size(); ++r) {
      for (const auto& alternative : grammar.rules[r].alternatives) {
        Set set = empty_text();
        for (const Symbol& symbol : alternative) {
          const auto id = static_cast<size_t>(symbol.id);
          set = concat(set, symbol.kind == Symbol::Kind::kLexeme ? lexemes[id]
                            : symbol.kind == Symbol::Kind::kRule ? rules[id]
                                                                 : token);
        }
        for (size_t i = 0; i < set.size(); ++i) {
          if (!set[i] || rules[r][i]) continue;
          rules[r][i] = changed = true;
        }
      }
    }
  }
  return rules[static_cast<size_t>(grammar.start)];
}

ShortStrings::Set ShortStrings::prefixes(const Set& set) const {
  Set result(set.size());
  for (size_t i = 0; i < set.size(); ++i) {
    if (!set[i]) continue;
    for (const Split& split : splits_[i]) result[split.first] = true;
  }
  return result;
}

namespace {

size_t below(std::mt19937& random, size_t count) {
  return random() % count;
}

Regular random_regular(std::mt19937& random, int depth) {
  const auto letter = [&] { return text(below(random, 2) == 0 ? "a" : "b"); };
  if (depth == 0) return below(random, 8) == 0 ? empty_text() : letter();
  const auto part = [&] { return random_regular(random, depth - 1); };
  switch (below(random, 9)) {
    case 0:
      return concat({part(), part()});
    case 1:
      return concat({letter(), part(), letter()});
    case 2:
      return any_of({part(), part()});
    case 3:
      return all_of({part(), part()});
    case 4:
      return complement(part());
    case 5:
      return repeat(part(), 0);
    case 6: {
      const auto min = static_cast<uint32_t>(below(random, 3));
      return repeat(part(), min, min + static_cast<uint32_t>(below(random, 3)));
    }
    case 7:
      return minus(part(), part());
    default:
      return letter();
  }
}

}  // namespace

Grammar random_grammar(std::mt19937& random, TokenId special) {
  Grammar grammar;
  const size_t num_lexemes = 1 + below(random, 3), num_rules = 1 + below(random, 4);
  for (size_t i = 0; i < num_lexemes; ++i)
    add_lexeme(grammar, random_regular(random, static_cast<int>(below(random, 4))));
  for (size_t i = 0; i < num_rules; ++i) add_rule(grammar, "r" + std::to_string(i));
  for (Rule& rule : grammar.rules) {
    const size_t num_alternatives = 1 + below(random, 3);
    for (size_t i = 0; i < num_alternatives; ++i) {
      std::vector<Symbol> alternative;
      for (size_t left = below(random, 4); left > 0; --left) {
        const size_t what = below(random, 10);
        if (what < 5) {
          alternative.push_back({Symbol::Kind::kLexeme, static_cast<int32_t>(below(random, num_lexemes))});
        } else if (what < 9) {
          alternative.push_back({Symbol::Kind::kRule, static_cast<int32_t>(below(random, num_rules))});
        } else {
          alternative.push_back({Symbol::Kind::kToken, special});
        }
      }
      rule.alternatives.push_back(std::move(alternative));
    }
  }
  return grammar;
}

}  // namespace quire::grammar
