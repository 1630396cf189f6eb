#include "grammar/compile_grammar.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

namespace quire::grammar {
namespace {

using PartKind = CompiledGrammar::Kind;
using ExpressionKind = Expressions::Kind;

struct Part {
  PartKind kind = PartKind::kLexeme;
  int32_t id = 0;
};
using Alternative = std::vector<Part>;
using Alternatives = std::vector<Alternative>;

// Turns expressions into parts of alternatives: one lexeme, unless it has repetitions to count.
class LexemeBuilder {
 public:
  LexemeBuilder(Expressions& expressions, Budget& budget, std::vector<Alternatives>& rules)
      : expressions_(expressions), budget_(budget), rules_(rules) {}

  // Sets failure() if it fails.
  Alternative lower(ExpressionId id) {
    if (!counts(id)) return {plain(id)};
    const auto found = lowered_.find(id);
    if (found != lowered_.end()) return found->second;
    const Expressions::Node node = expressions_.node(id);
    Alternative result;
    if (node.kind == ExpressionKind::kUnion) {
      result = {lower_union(node)};
    } else if (node.kind == ExpressionKind::kRepeat && !worth_counting(id)) {
      Alternative inner = lower(node.first);
      result = {add_rule({{}, std::move(inner)})};
    } else {
      result = lower_concat(id);
    }
    lowered_.emplace(id, result);
    return result;
  }

  const std::optional<Failure>& failure() const { return failure_; }
  std::vector<Automaton>& lexemes() { return lexemes_; }

 private:
  bool worth_counting(ExpressionId id) const {
    const Expressions::Node& node = expressions_.node(id);
    if (node.kind != ExpressionKind::kRepeat || expressions_.nullable(node.first)) return false;
    const uint32_t count = node.max == RegularNode::kUnlimited ? node.min : node.max;
    return count > 1 && size_t{count} * size_of(node.first) >= budget_.limits().unrolled_states;
  }

  // About the number of states, up to a limit: the nodes of the expression. States that allow many bytes
  // count more, because their masks take longer.
  size_t size_of(ExpressionId id) const {
    constexpr size_t kMaxSize = 64;
    size_t size = 0;
    std::vector<ExpressionId> seen = {id};
    const auto visit = [&](ExpressionId next) {
      if (std::ranges::find(seen, next) == seen.end()) seen.push_back(next);
    };
    for (size_t i = 0; i < seen.size() && size < kMaxSize; ++i) {
      const Expressions::Node& node = expressions_.node(seen[i]);
      size += node.kind == ExpressionKind::kBytes ? 1 + expressions_.bytes_of(node).count() / 8 : 1;
      if (node.kind == ExpressionKind::kConcat) visit(node.second);
      if (node.kind == ExpressionKind::kConcat || node.kind == ExpressionKind::kComplement ||
          node.kind == ExpressionKind::kRepeat)
        visit(node.first);
      for (const ExpressionId part : expressions_.parts(node)) visit(part);
    }
    return std::min(size, kMaxSize);
  }

  // Whether lower() divides the expression.
  bool counts(ExpressionId id) {
    const auto known = counts_.find(id);
    if (known != counts_.end()) return known->second;
    bool result = false;
    // Concatenations can be long, so their tails are a loop.
    for (ExpressionId rest = id; !result;) {
      const Expressions::Node& node = expressions_.node(rest);
      if (node.kind == ExpressionKind::kConcat) {
        result = counts(node.first);
        rest = node.second;
        continue;
      }
      if (node.kind == ExpressionKind::kUnion) {
        result =
            std::ranges::any_of(expressions_.parts(node), [&](ExpressionId part) { return counts(part); });
      } else if (node.kind == ExpressionKind::kRepeat) {
        result = worth_counting(rest) || (node.min == 0 && node.max == 1 && counts(node.first));
      }
      break;
    }
    counts_.emplace(id, result);
    return result;
  }

  Part lower_union(const Expressions::Node& node) {
    Alternatives alternatives;
    std::vector<ExpressionId> others;
    const auto parts = expressions_.parts(node);
    for (const ExpressionId part : std::vector<ExpressionId>(parts.begin(), parts.end())) {
      if (counts(part)) {
        alternatives.push_back(lower(part));
      } else {
        others.push_back(part);
      }
    }
    if (!others.empty()) alternatives.push_back({plain(expressions_.any_of(std::move(others)))});
    return add_rule(std::move(alternatives));
  }

  // Lexemes of at most one counted repetition each, with the plain parts around it.
  Alternative lower_concat(ExpressionId id) {
    std::vector<ExpressionId> parts;
    for (; expressions_.node(id).kind == ExpressionKind::kConcat; id = expressions_.node(id).second)
      parts.push_back(expressions_.node(id).first);
    parts.push_back(id);
    Alternative result;
    const auto join = [&](size_t begin, size_t end) {
      ExpressionId all = Expressions::kEmpty;
      for (size_t i = end; i-- > begin;) all = expressions_.concat(parts[i], all);
      return all;
    };
    const auto plain_until = [&](size_t from) {
      while (from < parts.size() && !counts(parts[from])) ++from;
      return from;
    };
    for (size_t begin = 0; begin < parts.size();) {
      const size_t first = plain_until(begin);
      if (first == parts.size()) {
        result.push_back(plain(join(begin, first)));
        break;
      }
      if (!worth_counting(parts[first])) {
        if (begin < first) result.push_back(plain(join(begin, first)));
        const Alternative inner = lower(parts[first]);
        result.insert(result.end(), inner.begin(), inner.end());
        begin = first + 1;
        continue;
      }
      const size_t end = plain_until(first + 1);
      const Expressions::Node node = expressions_.node(parts[first]);
      const Alternative lexemes = counted({.head = join(begin, first),
                                           .part = node.first,
                                           .min = node.min,
                                           .max = node.max,
                                           .tail = join(first + 1, end)});
      result.insert(result.end(), lexemes.begin(), lexemes.end());
      begin = end;
    }
    return result;
  }

  // One lexeme, or two if it is not certain where the repetitions end: the parser then keeps both readings.
  Alternative counted(const CountedExpression& expression) {
    const ExpressionId whole = expressions_.concat(
        expression.head,
        expressions_.concat(expressions_.repeat(expression.part, expression.min, expression.max),
                            expression.tail));
    const auto found = ids_.find(whole);
    if (found != ids_.end()) return {{PartKind::kLexeme, found->second}};
    Result<Automaton> built = build_counted_automaton(expressions_, expression, budget_);
    if (!built.ok() || built->num_states() > 0) return {add_lexeme(whole, std::move(built))};
    if (expression.tail == Expressions::kEmpty) return {plain(whole)};
    CountedExpression without_tail = expression;
    without_tail.tail = Expressions::kEmpty;
    Alternative result = counted(without_tail);
    result.push_back(plain(expression.tail));
    return result;
  }

  Part plain(ExpressionId id) {
    const auto found = ids_.find(id);
    if (found != ids_.end()) return {PartKind::kLexeme, found->second};
    return add_lexeme(id, build_automaton(expressions_, id, budget_));
  }

  Part add_lexeme(ExpressionId id, Result<Automaton> built) {
    if (built.ok()) {
      lexemes_.push_back(std::move(*built));
    } else {
      if (!failure_) failure_ = built.failure();
      lexemes_.emplace_back();
    }
    const auto index = static_cast<int32_t>(lexemes_.size()) - 1;
    ids_.emplace(id, index);
    return {PartKind::kLexeme, index};
  }

  Part add_rule(Alternatives alternatives) {
    rules_.push_back(std::move(alternatives));
    return {PartKind::kRule, static_cast<int32_t>(rules_.size()) - 1};
  }

  Expressions& expressions_;
  Budget& budget_;
  std::vector<Alternatives>& rules_;
  std::vector<Automaton> lexemes_;
  std::unordered_map<ExpressionId, int32_t> ids_;
  std::unordered_map<ExpressionId, Alternative> lowered_;
  std::unordered_map<ExpressionId, bool> counts_;
  std::optional<Failure> failure_;
};

// Which rules have a property that a rule has if one of its alternatives consists of symbols that have it.
// `has`: whether a lexeme or token has it.
template <typename Has>
std::vector<bool> rules_with(const std::vector<Alternatives>& rules, const Has& has) {
  struct Place {
    size_t rule = 0;
    size_t alternative = 0;
  };
  std::vector<bool> result(rules.size());
  std::vector<std::vector<size_t>> missing(rules.size());  // symbols without the property, by alternative
  std::vector<std::vector<Place>> uses(rules.size());
  std::vector<size_t> pending;
  for (size_t r = 0; r < rules.size(); ++r) {
    for (size_t a = 0; a < rules[r].size(); ++a) {
      size_t count = 0;
      for (const Part& part : rules[r][a]) {
        if (part.kind == PartKind::kRule) uses[static_cast<size_t>(part.id)].push_back({r, a});
        if (part.kind == PartKind::kRule || !has(part)) ++count;
      }
      missing[r].push_back(count);
      if (count == 0 && !result[r]) {
        result[r] = true;
        pending.push_back(r);
      }
    }
  }
  while (!pending.empty()) {
    const size_t rule = pending.back();
    pending.pop_back();
    for (const Place& use : uses[rule]) {
      if (--missing[use.rule][use.alternative] > 0 || result[use.rule]) continue;
      result[use.rule] = true;
      pending.push_back(use.rule);
    }
  }
  return result;
}

class GrammarCompiler {
 public:
  GrammarCompiler(const Grammar& grammar, const TokenTable& tokens, const Limits& limits)
      : grammar_(grammar),
        tokens_(tokens),
        limits_(limits),
        budget_(limits),
        expressions_(budget_),
        lexemes_(expressions_, budget_, rules_) {}

  Result<CompiledGrammar> run() {
    if (const Status status = check(); !status.ok()) return status.failure();
    ByteSet available;
    for (size_t byte = 0; byte < 256; ++byte)
      available.set(byte, tokens_.has_byte(static_cast<uint8_t>(byte)));
    expressions_.restrict_to(available);
    rules_.resize(grammar_.rules.size());
    if (const Status status = lower_rules(); !status.ok()) return status.failure();
    remove_empty_alternatives();
    if (rules_[static_cast<size_t>(grammar_.start)].empty())
      return invalid_argument("No output is possible: the grammar has no sentence.");
    emit();
    if (result_.memory() > limits_.memory_bytes)
      return invalid_argument("The grammar needs more than " + std::to_string(limits_.memory_bytes >> 20) +
                              " MiB of memory; simplify it.");
    return std::move(result_);
  }

 private:
  Status check() const {
    const size_t size = grammar_.rules.size() + grammar_.lexemes.size();
    if (size > limits_.rules_and_lexemes)
      return invalid_argument("The grammar has more than " + std::to_string(limits_.rules_and_lexemes) +
                              " rules and lexemes; simplify it.");
    const auto in = [](int32_t id, size_t count) { return id >= 0 && static_cast<size_t>(id) < count; };
    if (!in(grammar_.start, grammar_.rules.size())) return invalid_argument("The grammar has no start rule.");
    for (const Rule& rule : grammar_.rules) {
      for (const auto& alternative : rule.alternatives) {
        for (const Symbol& symbol : alternative) {
          const bool known = symbol.kind == Symbol::Kind::kLexeme ? in(symbol.id, grammar_.lexemes.size())
                             : symbol.kind == Symbol::Kind::kRule ? in(symbol.id, grammar_.rules.size())
                                                                  : in(symbol.id, tokens_.vocab_size());
          if (!known) return failure_in(rule, "A symbol has an unknown id.");
          if (symbol.kind == Symbol::Kind::kToken && tokens_.is_end(symbol.id))
            return failure_in(rule, "Token " + std::to_string(symbol.id) +
                                        " ends the output, so it cannot be a part of it.");
        }
      }
    }
    return {};
  }

  static Failure failure_in(const Rule& rule, const std::string& message) {
    return invalid_argument(rule.name.empty() ? message : "Rule \"" + rule.name + "\": " + message);
  }

  // Only rules that the start rule reaches: others cost nothing.
  Status lower_rules() {
    std::vector<int32_t> pending = {grammar_.start};
    std::vector<bool> seen(grammar_.rules.size());
    seen[static_cast<size_t>(grammar_.start)] = true;
    while (!pending.empty()) {
      const int32_t id = pending.back();
      pending.pop_back();
      const Rule& rule = grammar_.rules[static_cast<size_t>(id)];
      Alternatives alternatives = lower_rule(rule);
      if (lexemes_.failure()) return failure_in(rule, lexemes_.failure()->message);
      if (rules_.size() > limits_.rules_and_lexemes * 2) return failure_in(rule, "The grammar is too large.");
      for (const auto& alternative : rule.alternatives) {
        for (const Symbol& symbol : alternative) {
          if (symbol.kind != Symbol::Kind::kRule || seen[static_cast<size_t>(symbol.id)]) continue;
          seen[static_cast<size_t>(symbol.id)] = true;
          pending.push_back(symbol.id);
        }
      }
      rules_[static_cast<size_t>(id)] = std::move(alternatives);
    }
    return {};
  }

  Alternatives lower_rule(const Rule& rule) {
    Alternatives result;
    // Alternatives that are only fixed texts become one lexeme, which is one place for the parser.
    std::vector<ExpressionId> texts;
    for (const auto& alternative : rule.alternatives) {
      budget_.spend_steps(1 + alternative.size());
      if (alternative.size() == 1 && alternative[0].kind == Symbol::Kind::kLexeme) {
        const ExpressionId id = expression(alternative[0].id);
        if (is_text(id)) {
          texts.push_back(id);
          continue;
        }
      }
      Alternative parts;
      for (const Symbol& symbol : alternative) {
        if (symbol.kind != Symbol::Kind::kLexeme) {
          parts.push_back(
              {symbol.kind == Symbol::Kind::kRule ? PartKind::kRule : PartKind::kToken, symbol.id});
          continue;
        }
        const Alternative lexeme = lexemes_.lower(expression(symbol.id));
        parts.insert(parts.end(), lexeme.begin(), lexeme.end());
      }
      result.push_back(std::move(parts));
    }
    if (!texts.empty()) result.push_back(lexemes_.lower(expressions_.any_of(std::move(texts))));
    return result;
  }

  ExpressionId expression(int32_t lexeme) {
    return expressions_.add(grammar_.lexemes[static_cast<size_t>(lexeme)]);
  }

  bool is_text(ExpressionId id) const {
    const auto is_bytes = [&](ExpressionId part) {
      return expressions_.node(part).kind == ExpressionKind::kBytes;
    };
    while (expressions_.node(id).kind == ExpressionKind::kConcat) {
      if (!is_bytes(expressions_.node(id).first)) return false;
      id = expressions_.node(id).second;
    }
    return is_bytes(id);
  }

  void remove_empty_alternatives() {
    const auto productive = rules_with(rules_, [&](const Part& part) {
      return part.kind == PartKind::kToken ||
             lexemes_.lexemes()[static_cast<size_t>(part.id)].start() != Automaton::kDead;
    });
    const auto is_dead = [&](const Part& part) {
      if (part.kind == PartKind::kRule) return !productive[static_cast<size_t>(part.id)];
      return part.kind == PartKind::kLexeme &&
             lexemes_.lexemes()[static_cast<size_t>(part.id)].start() == Automaton::kDead;
    };
    for (Alternatives& alternatives : rules_) {
      std::erase_if(alternatives, [&](const Alternative& alternative) {
        return std::ranges::any_of(alternative, is_dead);
      });
    }
  }

  void emit() {
    result_.lexemes = std::move(lexemes_.lexemes());
    result_.max_items = limits_.items;
    const auto nullable = rules_with(rules_, [&](const Part& part) {
      return part.kind == PartKind::kLexeme && result_.lexemes[static_cast<size_t>(part.id)].nullable();
    });
    const auto append = [&](const Alternative& alternative) {
      const auto begin = static_cast<int32_t>(result_.positions.size());
      for (const Part& part : alternative) {
        const auto id = static_cast<size_t>(part.id);
        const bool skips = part.kind == PartKind::kRule     ? nullable[id]
                           : part.kind == PartKind::kLexeme ? result_.lexemes[id].nullable()
                                                            : false;
        result_.positions.push_back({part.kind, skips, part.id});
        if (part.kind == PartKind::kToken) result_.tokens.push_back(part.id);
      }
      result_.positions.push_back({});
      return begin;
    };
    result_.start = append({{PartKind::kRule, grammar_.start}});
    result_.rules.resize(rules_.size());
    for (size_t i = 0; i < rules_.size(); ++i) {
      CompiledGrammar::RuleStart& rule = result_.rules[i];
      rule.nullable = nullable[i];
      for (const Alternative& alternative : rules_[i]) {
        for (int32_t at = append(alternative);; ++at) {
          const CompiledGrammar::Position& position = result_.positions[static_cast<size_t>(at)];
          if (position.kind == PartKind::kEnd) break;
          rule.positions.push_back(at);
          if (!position.nullable) break;
        }
      }
    }
    std::sort(result_.tokens.begin(), result_.tokens.end());
    result_.tokens.erase(std::unique(result_.tokens.begin(), result_.tokens.end()), result_.tokens.end());
  }

  const Grammar& grammar_;
  const TokenTable& tokens_;
  Limits limits_;
  Budget budget_;
  Expressions expressions_;
  std::vector<Alternatives> rules_;  // those of the grammar, then those of divided lexemes
  LexemeBuilder lexemes_;
  CompiledGrammar result_;
};

}  // namespace

Result<CompiledGrammar> compile_grammar(const Grammar& grammar, const TokenTable& tokens,
                                        const Limits& limits) {
  return GrammarCompiler(grammar, tokens, limits).run();
}

}  // namespace quire::grammar
