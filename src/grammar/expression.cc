#include "grammar/expression.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/strings.h"

namespace quire::grammar {
namespace {

using SyntaxKind = Expression::Kind;

// The limit of symbols for each rule or lexeme that the limits allow.
constexpr size_t kSymbolsPerRule = 10;

// A part of the grammar under construction: a regular language, or symbols.
struct LoweredPart {
  Regular language;  // null: `symbols`
  size_t size = 0;   // see Expression::size
  std::vector<Symbol> symbols = {};

  bool is_nothing() const { return language != nullptr && language->kind == RegularNode::Kind::kNothing; }
};

class ExpressionLowering {
 public:
  ExpressionLowering(Grammar& grammar, const std::vector<NamedExpression>& rules, const Limits& limits,
                     MemoryBudget& budget)
      : grammar_(grammar),
        rules_(rules),
        limits_(limits),
        budget_(budget),
        regular_(rules.size()),
        symbols_(rules.size()) {}

  Result<Symbol> lower_all(size_t start);

 private:
  // The rules that rules_[start] uses, itself included.
  std::vector<size_t> reachable(size_t start) const;
  void find_regular_rules(const std::vector<size_t>& rules);
  // The language of the expression, if it has no symbols and refers to regular rules only. Null otherwise.
  LoweredPart regular_part(const Expression& expression);
  bool fits(const std::vector<LoweredPart>& parts, size_t& size);
  // Concatenates and unites languages, unless the result is too large for one lexeme.
  bool join(const std::vector<LoweredPart>& parts, LoweredPart& joined);
  bool unite(const std::vector<LoweredPart>& parts, LoweredPart& united);
  LoweredPart repeated(LoweredPart part, uint32_t min, uint32_t max);

  LoweredPart lower(const Expression& expression);
  LoweredPart lower_sequence(const Expression& expression);
  LoweredPart lower_choice(const Expression& expression);
  LoweredPart lower_repeat(const Expression& expression);
  std::vector<LoweredPart> lower_alternatives(const Expression& expression);
  std::vector<std::vector<Symbol>> symbols_of(std::vector<LoweredPart> parts);
  Symbol star_of(const std::vector<Symbol>& item);
  void append_symbols(std::vector<Symbol>& symbols, const LoweredPart& part);
  Symbol lexeme_of(const Regular& language);
  Symbol new_rule(std::string name, std::vector<std::vector<Symbol>> alternatives);
  void count_symbols(size_t symbols);
  // Counts a rule or lexeme.
  void count_new();

  Grammar& grammar_;
  const std::vector<NamedExpression>& rules_;
  const Limits& limits_;
  MemoryBudget& budget_;
  std::vector<LoweredPart> regular_;              // of rules_, null if not regular
  std::vector<std::optional<Symbol>> symbols_;    // of rules_ that became rules
  std::map<const RegularNode*, Symbol> lexemes_;  // lexemes that exist already
  std::string name_;                              // name for new rules
  size_t num_new_ = 0;                            // rules and lexemes that were added
  size_t num_symbols_ = 0;                        // symbols in alternatives
  bool failed_ = false;
};

void collect_references(const Expression& expression, std::vector<size_t>& references) {
  if (expression.kind == SyntaxKind::kReference) references.push_back(expression.reference);
  for (const Expression& part : expression.parts) collect_references(part, references);
}

bool has_symbols(const Expression& expression) {
  return expression.kind == SyntaxKind::kSymbol ||
         (expression.kind == SyntaxKind::kLanguage && expression.size == 0) ||
         std::any_of(expression.parts.begin(), expression.parts.end(), has_symbols);
}

std::vector<Regular> languages_in(const std::vector<LoweredPart>& parts) {
  std::vector<Regular> languages;
  languages.reserve(parts.size());
  for (const LoweredPart& part : parts) languages.push_back(part.language);
  return languages;
}

std::vector<size_t> ExpressionLowering::reachable(size_t start) const {
  std::vector<bool> seen(rules_.size(), false);
  std::vector<size_t> order = {start};
  seen[start] = true;
  for (size_t i = 0; i < order.size(); ++i) {
    std::vector<size_t> references;
    collect_references(rules_[order[i]].body, references);
    for (const size_t reference : references) {
      if (seen[reference]) continue;
      seen[reference] = true;
      order.push_back(reference);
    }
  }
  return order;
}

// A rule is regular if all that it refers to is. Rules whose references are done are ready, so rules of a
// cycle never are.
void ExpressionLowering::find_regular_rules(const std::vector<size_t>& rules) {
  std::vector<size_t> open(rules_.size(), 0);
  std::vector<std::vector<size_t>> users(rules_.size());
  std::vector<size_t> ready;
  for (const size_t rule : rules) {
    std::vector<size_t> references;
    collect_references(rules_[rule].body, references);
    for (const size_t reference : references) users[reference].push_back(rule);
    open[rule] = references.size();
    if (references.empty()) ready.push_back(rule);
  }
  while (!ready.empty()) {
    const size_t rule = ready.back();
    ready.pop_back();
    if (has_symbols(rules_[rule].body)) continue;
    regular_[rule] = regular_part(rules_[rule].body);
    if (regular_[rule].language == nullptr) continue;
    for (const size_t user : users[rule])
      if (--open[user] == 0) ready.push_back(user);
  }
}

// Takes what one lexeme of all parts needs. False if that is too large.
bool ExpressionLowering::fits(const std::vector<LoweredPart>& parts, size_t& size) {
  size = 0;
  size_t operands = 0;
  for (const LoweredPart& part : parts) {
    size += part.size;
    operands += part.language->parts.size() + 1;
  }
  return size <= limits_.states_of_lexeme && budget_.charge(operands);
}

bool ExpressionLowering::join(const std::vector<LoweredPart>& parts, LoweredPart& joined) {
  if (!fits(parts, joined.size)) return false;
  joined.language = concat(languages_in(parts));
  return true;
}

bool ExpressionLowering::unite(const std::vector<LoweredPart>& parts, LoweredPart& united) {
  if (!fits(parts, united.size)) return false;
  united.language = any_of(languages_in(parts));
  return true;
}

LoweredPart ExpressionLowering::repeated(LoweredPart part, uint32_t min, uint32_t max) {
  const size_t times = std::max<size_t>(1, max == RegularNode::kUnlimited ? min : max);
  if (part.size > limits_.states_of_lexeme / times || !budget_.charge(1)) return {};
  return {repeat(std::move(part.language), min, max), part.size * times};
}

LoweredPart ExpressionLowering::regular_part(const Expression& expression) {
  switch (expression.kind) {
    case SyntaxKind::kLanguage:
      return {expression.language, expression.size};
    case SyntaxKind::kReference:
      return regular_[expression.reference];
    case SyntaxKind::kRepeat: {
      LoweredPart part = regular_part(expression.parts[0]);
      return part.language == nullptr ? part : repeated(std::move(part), expression.min, expression.max);
    }
    case SyntaxKind::kSequence:
    case SyntaxKind::kChoice: {
      std::vector<LoweredPart> parts;
      parts.reserve(expression.parts.size());
      for (const Expression& part : expression.parts) {
        parts.push_back(regular_part(part));
        if (parts.back().language == nullptr) return {};
      }
      LoweredPart result;
      const bool done = expression.kind == SyntaxKind::kSequence ? join(parts, result) : unite(parts, result);
      return done ? result : LoweredPart{};
    }
    case SyntaxKind::kSymbol:
      break;
  }
  return {};
}

void ExpressionLowering::count_symbols(size_t symbols) {
  num_symbols_ += symbols;
  if (num_symbols_ > kSymbolsPerRule * limits_.rules_and_lexemes) failed_ = true;
}

void ExpressionLowering::count_new() {
  if (++num_new_ > limits_.rules_and_lexemes) failed_ = true;
}

Symbol ExpressionLowering::lexeme_of(const Regular& language) {
  const auto found = lexemes_.find(language.get());
  if (found != lexemes_.end()) return found->second;
  count_new();
  return lexemes_.emplace(language.get(), add_lexeme(grammar_, language)).first->second;
}

Symbol ExpressionLowering::new_rule(std::string name, std::vector<std::vector<Symbol>> alternatives) {
  count_new();
  for (const std::vector<Symbol>& alternative : alternatives) count_symbols(alternative.size());
  if (failed_) return {};
  const Symbol rule = add_rule(grammar_, std::move(name));
  grammar_.rules[static_cast<size_t>(rule.id)].alternatives = std::move(alternatives);
  return rule;
}

void ExpressionLowering::append_symbols(std::vector<Symbol>& symbols, const LoweredPart& part) {
  if (part.language == nullptr) {
    symbols.insert(symbols.end(), part.symbols.begin(), part.symbols.end());
  } else if (part.language->kind != RegularNode::Kind::kEmpty) {
    symbols.push_back(lexeme_of(part.language));
  }
}

LoweredPart ExpressionLowering::lower(const Expression& expression) {
  if (failed_) return {};
  switch (expression.kind) {
    case SyntaxKind::kLanguage:
      if (expression.size == 0) return {nullptr, 0, {lexeme_of(expression.language)}};
      return {expression.language, expression.size};
    case SyntaxKind::kSymbol:
      return {nullptr, 0, {expression.symbol}};
    case SyntaxKind::kReference:
      if (regular_[expression.reference].language != nullptr) return regular_[expression.reference];
      return {nullptr, 0, {*symbols_[expression.reference]}};
    case SyntaxKind::kSequence:
      return lower_sequence(expression);
    case SyntaxKind::kChoice:
      return lower_choice(expression);
    case SyntaxKind::kRepeat:
      return lower_repeat(expression);
  }
  return {};
}

LoweredPart ExpressionLowering::lower_sequence(const Expression& expression) {
  std::vector<Symbol> symbols;
  std::vector<LoweredPart> run;  // languages since the last symbol
  bool only_languages = true;
  const auto end_run = [&]() -> LoweredPart {
    LoweredPart joined;
    if (!join(run, joined)) {
      only_languages = false;
      for (const LoweredPart& part : run) append_symbols(symbols, part);
    }
    run.clear();
    return joined;
  };
  for (const Expression& part : expression.parts) {
    LoweredPart lowered = lower(part);
    if (failed_) return {};
    if (lowered.is_nothing()) return {nothing(), 1};
    if (lowered.language != nullptr) {
      run.push_back(std::move(lowered));
      continue;
    }
    if (!run.empty()) {
      const LoweredPart joined = end_run();
      if (joined.language != nullptr) append_symbols(symbols, joined);
    }
    only_languages = false;
    append_symbols(symbols, lowered);
  }
  if (run.empty() && !only_languages) return {nullptr, 0, std::move(symbols)};
  LoweredPart joined = end_run();
  if (only_languages) return joined;
  if (joined.language != nullptr) append_symbols(symbols, joined);
  return {nullptr, 0, std::move(symbols)};
}

std::vector<LoweredPart> ExpressionLowering::lower_alternatives(const Expression& expression) {
  std::vector<LoweredPart> alternatives;
  if (expression.kind != SyntaxKind::kChoice) {
    alternatives.push_back(lower(expression));
    return alternatives;
  }
  for (const Expression& part : expression.parts) {
    if (failed_) break;
    alternatives.push_back(lower(part));
  }
  return alternatives;
}

// One alternative for all languages, and one for each other part.
std::vector<std::vector<Symbol>> ExpressionLowering::symbols_of(std::vector<LoweredPart> parts) {
  std::vector<std::vector<Symbol>> alternatives;
  std::vector<LoweredPart> languages;
  for (LoweredPart& part : parts) {
    if (part.is_nothing()) continue;
    if (part.language != nullptr) {
      languages.push_back(std::move(part));
    } else {
      alternatives.push_back(std::move(part.symbols));
    }
  }
  LoweredPart united;
  if (languages.size() > 1 && unite(languages, united)) languages = {united};
  for (const LoweredPart& language : languages) {
    alternatives.emplace_back();
    append_symbols(alternatives.back(), language);
  }
  return alternatives;
}

LoweredPart ExpressionLowering::lower_choice(const Expression& expression) {
  std::vector<LoweredPart> parts = lower_alternatives(expression);
  if (failed_) return {};
  const bool only_languages = std::all_of(parts.begin(), parts.end(),
                                          [](const LoweredPart& part) { return part.language != nullptr; });
  LoweredPart united;
  if (only_languages && unite(parts, united)) return united;
  return {nullptr, 0, {new_rule(name_, symbols_of(std::move(parts)))}};
}

// Any number of items. Left recursion, so that a parser has no pending rules for earlier items.
Symbol ExpressionLowering::star_of(const std::vector<Symbol>& item) {
  const Symbol star = new_rule(name_, {{}});
  if (failed_) return star;
  std::vector<Symbol> more = {star};
  more.insert(more.end(), item.begin(), item.end());
  count_symbols(more.size());
  grammar_.rules[static_cast<size_t>(star.id)].alternatives.push_back(std::move(more));
  return star;
}

LoweredPart ExpressionLowering::lower_repeat(const Expression& expression) {
  if (expression.max == 0) return {empty_text(), 1};
  LoweredPart part = lower(expression.parts[0]);
  if (failed_) return {};
  if (part.language != nullptr) {
    LoweredPart whole = repeated(part, expression.min, expression.max);
    if (whole.language != nullptr) return whole;
  }
  std::vector<Symbol> item;
  append_symbols(item, part);
  if (item.size() > 1) item = {new_rule(name_, {item})};
  count_symbols(expression.min);
  if (failed_) return {};
  std::vector<Symbol> symbols;
  for (uint32_t i = 0; i < expression.min; ++i) symbols.insert(symbols.end(), item.begin(), item.end());
  if (expression.max == RegularNode::kUnlimited) {
    symbols.push_back(star_of(item));
    return {nullptr, 0, std::move(symbols)};
  }
  // Up to max - min more: each rule is one item and the rule for fewer, or the empty text.
  std::optional<Symbol> fewer;
  for (uint32_t i = expression.min; i < expression.max && !failed_; ++i) {
    std::vector<Symbol> more = item;
    if (fewer) more.push_back(*fewer);
    fewer = new_rule(name_, {{}, std::move(more)});
  }
  if (fewer) symbols.push_back(*fewer);
  return {nullptr, 0, std::move(symbols)};
}

Result<Symbol> ExpressionLowering::lower_all(size_t start) {
  const std::vector<size_t> rules = reachable(start);
  find_regular_rules(rules);
  for (const size_t rule : rules) {
    if (regular_[rule].language == nullptr && !failed_) symbols_[rule] = new_rule(rules_[rule].name, {});
  }
  for (const size_t rule : rules) {
    if (regular_[rule].language != nullptr || failed_) continue;
    name_ = rules_[rule].name;
    std::vector<std::vector<Symbol>> alternatives = symbols_of(lower_alternatives(rules_[rule].body));
    for (const std::vector<Symbol>& alternative : alternatives) count_symbols(alternative.size());
    if (!failed_)
      grammar_.rules[static_cast<size_t>(symbols_[rule]->id)].alternatives = std::move(alternatives);
  }
  if (failed_)
    return invalid_argument(cat("more than ", limits_.rules_and_lexemes, " rules and lexemes, or ",
                                kSymbolsPerRule * limits_.rules_and_lexemes, " symbols"));
  if (budget_.exceeded()) return invalid_argument("it takes too much memory");
  if (symbols_[start]) return *symbols_[start];
  return lexeme_of(regular_[start].language);
}

}  // namespace

Expression language_expression(Regular language, size_t size) {
  Expression expression;
  expression.kind = SyntaxKind::kLanguage;
  expression.language = std::move(language);
  expression.size = size;
  return expression;
}

Expression symbol_expression(Symbol symbol) {
  Expression expression;
  expression.kind = SyntaxKind::kSymbol;
  expression.symbol = symbol;
  return expression;
}

Expression sequence_expression(std::vector<Expression> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  Expression expression;
  expression.parts = std::move(parts);
  return expression;
}

Expression choice_expression(std::vector<Expression> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  Expression expression;
  expression.kind = SyntaxKind::kChoice;
  expression.parts = std::move(parts);
  return expression;
}

Expression repeat_expression(Expression part, uint32_t min, uint32_t max) {
  Expression expression;
  expression.kind = SyntaxKind::kRepeat;
  expression.parts.push_back(std::move(part));
  expression.min = min;
  expression.max = max;
  return expression;
}

Result<Symbol> add_expressions(Grammar& grammar, const std::vector<NamedExpression>& rules, size_t start,
                               const Limits& limits, MemoryBudget& budget) {
  return ExpressionLowering(grammar, rules, limits, budget).lower_all(start);
}

void set_start(Grammar& grammar, Symbol symbol) {
  if (symbol.kind != Symbol::Kind::kRule) {
    const Symbol rule = add_rule(grammar, "root");
    grammar.rules[static_cast<size_t>(rule.id)].alternatives = {{symbol}};
    symbol = rule;
  }
  grammar.start = symbol.id;
}

}  // namespace quire::grammar
