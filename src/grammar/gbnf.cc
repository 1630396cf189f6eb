#include "grammar/gbnf.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "grammar/character_set.h"
#include "grammar/expression.h"
#include "text/unicode/unicode.h"

namespace quire::grammar {
namespace {

constexpr std::string_view kRootRule = "root";

bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_decimal(c) || c == '-' || c == '_';
}

// Recursive descent over one grammar. After the first error all functions return default values, and the
// position is at the end.
class GbnfParser {
 public:
  GbnfParser(std::string_view source, const GbnfOptions& options)
      : source_(source),
        options_(options),
        budget_{static_cast<int64_t>(options.limits.memory_bytes)},
        languages_({}, budget_) {}

  Result<Symbol> parse_into(Grammar& grammar);

 private:
  // A rule by its name: where it is defined, and where it is used first.
  struct RuleUse {
    size_t index = 0;
    bool defined = false;
    size_t position = 0;
  };

  bool failed() const { return !message_.empty(); }
  bool at_end() const { return position_ >= source_.size(); }
  char peek(size_t offset = 0) const {
    return position_ + offset < source_.size() ? source_[position_ + offset] : '\0';
  }
  bool take(std::string_view text) {
    if (source_.substr(position_, text.size()) != text) return false;
    position_ += text.size();
    return true;
  }
  void fail(size_t position, std::string_view message);
  std::string located(size_t position, std::string_view message) const;
  char32_t take_character();
  void skip_space();
  std::string_view take_name();
  // Whether a name and ::= follow.
  bool at_definition();
  size_t rule_index(std::string_view name, size_t position);

  void parse_rule();
  Expression parse_alternatives(int depth);
  Expression parse_sequence(int depth);
  Expression parse_item(int depth);
  Expression parse_group(int depth);
  Expression parse_reference();
  Expression parse_literal();
  Expression parse_class();
  Expression parse_token();
  Expression parse_repeats(Expression item);
  bool parse_braces(uint32_t& min, uint32_t& max);
  uint32_t parse_count();
  char32_t parse_escape();
  char32_t parse_hex(size_t begin, int digits);
  Expression characters_expression(const CharacterSet& set);
  void charge(size_t parts);
  void check_rules();

  std::string_view source_;
  const GbnfOptions& options_;
  size_t position_ = 0;
  std::string message_;  // the first error, empty so far
  MemoryBudget budget_;
  CharacterLanguages languages_;
  std::vector<NamedExpression> rules_;
  std::map<std::string, RuleUse, std::less<>> uses_;
};

std::string GbnfParser::located(size_t position, std::string_view message) const {
  size_t line = 1;
  size_t column = 1;
  for (size_t i = 0; i < position; ++i) {
    if (source_[i] == '\n') {
      ++line;
      column = 1;
    } else if ((static_cast<uint8_t>(source_[i]) & 0xC0) != 0x80) {
      ++column;
    }
  }
  return cat("line ", line, ", column ", column, ": ", message);
}

void GbnfParser::fail(size_t position, std::string_view message) {
  if (failed()) return;
  message_ = located(position, message);
  position_ = source_.size();
}

char32_t GbnfParser::take_character() {
  size_t length = 0;
  const char32_t c = unicode::decode(source_.data() + position_, &length);
  position_ += length;
  return c;
}

void GbnfParser::charge(size_t parts) {
  if (!budget_.charge(parts)) fail(position_, "the grammar takes too much memory");
}

// Blanks, line breaks and comments.
void GbnfParser::skip_space() {
  while (!at_end()) {
    const char c = peek();
    if (c == '#') {
      while (!at_end() && peek() != '\n' && peek() != '\r') ++position_;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++position_;
    } else {
      return;
    }
  }
}

std::string_view GbnfParser::take_name() {
  const size_t begin = position_;
  while (!at_end() && is_name_character(peek())) ++position_;
  return source_.substr(begin, position_ - begin);
}

bool GbnfParser::at_definition() {
  const size_t begin = position_;
  const bool is_name = !take_name().empty();
  while (peek() == ' ' || peek() == '\t') ++position_;
  const bool is_definition = is_name && take("::=");
  position_ = begin;
  return is_definition;
}

size_t GbnfParser::rule_index(std::string_view name, size_t position) {
  const auto found = uses_.find(name);
  if (found != uses_.end()) return found->second.index;
  const RuleUse use{rules_.size(), false, position};
  uses_.emplace(std::string(name), use);
  rules_.push_back({std::string(name), {}});
  charge(4);
  return use.index;
}

Result<Symbol> GbnfParser::parse_into(Grammar& grammar) {
  if (source_.size() > options_.limits.specification_bytes)
    return invalid_argument(located(options_.limits.specification_bytes,
                                    cat("the grammar is too long (", source_.size(), " bytes)")));
  size_t length = 0;
  for (size_t i = 0; i < source_.size(); i += length) {
    if (unicode::scan(source_.substr(i, 4), &length) != unicode::Utf8State::kComplete)
      return invalid_argument(located(i, "the grammar is not valid UTF-8"));
  }
  skip_space();
  while (!failed() && !at_end()) {
    parse_rule();
    skip_space();
  }
  if (!failed()) check_rules();
  if (failed()) return invalid_argument(message_);
  const RuleUse root = uses_.find(kRootRule)->second;
  auto symbol = add_expressions(grammar, rules_, root.index, options_.limits, budget_);
  if (!symbol.ok()) return invalid_argument(located(root.position, symbol.failure().message));
  return symbol;
}

void GbnfParser::check_rules() {
  const RuleUse* undefined = nullptr;
  std::string_view name;
  for (const auto& [rule, use] : uses_) {
    if (use.defined || (undefined != nullptr && undefined->position < use.position)) continue;
    undefined = &use;
    name = rule;
  }
  if (undefined != nullptr) {
    fail(undefined->position, cat("the rule '", name, "' is not defined"));
  } else if (uses_.find(kRootRule) == uses_.end()) {
    fail(source_.size(), "the rule 'root' is missing");
  }
}

void GbnfParser::parse_rule() {
  const size_t begin = position_;
  if (!at_definition()) {
    if (!take_name().empty() && peek() == '[')
      return fail(position_, "attributes of rules are not supported");
    return fail(begin, "a rule starts with its name and ::=");
  }
  const std::string_view name = take_name();
  skip_space();
  take("::=");
  const size_t index = rule_index(name, begin);
  RuleUse& use = uses_.find(name)->second;
  if (use.defined) return fail(begin, cat("the rule '", name, "' is defined twice"));
  use.defined = true;
  use.position = begin;
  Expression body = parse_alternatives(0);
  if (!failed() && !at_end() && !at_definition())
    fail(position_, peek() == ')' ? "unmatched )" : "unexpected character");
  rules_[index].body = std::move(body);
}

Expression GbnfParser::parse_alternatives(int depth) {
  std::vector<Expression> alternatives;
  do {
    alternatives.push_back(parse_sequence(depth));
  } while (!failed() && take("|"));
  return choice_expression(std::move(alternatives));
}

Expression GbnfParser::parse_sequence(int depth) {
  std::vector<Expression> items;
  for (;;) {
    skip_space();
    if (failed() || at_end() || peek() == '|' || peek() == ')') break;
    if (is_name_character(peek()) && at_definition()) break;
    items.push_back(parse_item(depth));
    charge(4);
  }
  return sequence_expression(std::move(items));
}

Expression GbnfParser::parse_item(int depth) {
  const size_t begin = position_;
  switch (peek()) {
    case '"':
      return parse_repeats(parse_literal());
    case '[':
      return parse_repeats(parse_class());
    case '(':
      return parse_repeats(parse_group(depth));
    case '<':
      return parse_repeats(parse_token());
    case '.':
      ++position_;
      return parse_repeats(characters_expression(complement_set({})));
    case '!':
      fail(begin, "the complement of a token is not supported");
      return {};
    case '*':
    case '+':
    case '?':
    case '{':
      fail(begin, "a repeat without an operand");
      return {};
    default:
      if (is_name_character(peek())) return parse_repeats(parse_reference());
      fail(begin, "unexpected character");
      return {};
  }
}

Expression GbnfParser::parse_group(int depth) {
  const size_t begin = position_;
  ++position_;
  if (peek() == '=') {
    fail(begin, "look-ahead assertions are not supported");
    return {};
  }
  if (depth >= options_.limits.nesting) {
    fail(begin, cat("groups are nested more than ", options_.limits.nesting, " deep"));
    return {};
  }
  Expression content = parse_alternatives(depth + 1);
  if (!failed() && !take(")")) fail(begin, "missing )");
  return content;
}

Expression GbnfParser::parse_reference() {
  // Of xgrammar. They look like a rule and a group.
  static constexpr std::array<std::string_view, 5> kMacros = {"TagDispatch", "TokenTagDispatch", "Token",
                                                              "ExcludeToken", "Regex"};
  const size_t begin = position_;
  const std::string_view name = take_name();
  if (peek() == '.' && is_name_character(peek(1))) {
    fail(position_, "write a blank in front of . for any character; names have no dots");
    return {};
  }
  for (const std::string_view macro : kMacros) {
    if (name == macro && peek() == '(' && uses_.find(name) == uses_.end()) {
      fail(begin, cat(macro, "(...) is not supported"));
      return {};
    }
  }
  Expression expression;
  expression.kind = Expression::Kind::kReference;
  expression.reference = rule_index(name, begin);
  return expression;
}

Expression GbnfParser::parse_literal() {
  const size_t begin = position_;
  ++position_;
  std::vector<Regular> parts;
  while (!failed()) {
    if (at_end()) {
      fail(begin, "missing \"");
      break;
    }
    if (take("\"")) break;
    const char32_t c = peek() == '\\' ? parse_escape() : take_character();
    parts.push_back(languages_.of(c));
  }
  charge(parts.size());
  if (failed()) return {};
  const size_t size = parts.size();
  return language_expression(concat(std::move(parts)), size + 1);
}

Expression GbnfParser::characters_expression(const CharacterSet& set) {
  Regular language = languages_.of(set);
  charge(0);
  const bool ascii =
      std::all_of(set.begin(), set.end(), [](const CharacterRange& range) { return range.last < 0x80; });
  return language_expression(std::move(language), ascii ? 1 : 8);
}

Expression GbnfParser::parse_class() {
  const size_t begin = position_;
  ++position_;
  const bool negated = take("^");
  CharacterSet set;
  while (!failed()) {
    if (at_end()) {
      fail(begin, "missing ]");
      break;
    }
    if (take("]")) break;
    const size_t at = position_;
    const char32_t first = peek() == '\\' ? parse_escape() : take_character();
    char32_t last = first;
    if (!failed() && peek() == '-' && position_ + 1 < source_.size() && peek(1) != ']') {
      ++position_;
      last = peek() == '\\' ? parse_escape() : take_character();
    }
    if (first > last) fail(at, "the first character of a range is after the last");
    set.push_back({first, last});
  }
  if (failed()) return {};
  return characters_expression(negated ? complement_set(std::move(set)) : set);
}

// <[id]> or <text>.
Expression GbnfParser::parse_token() {
  const size_t begin = position_;
  const SpecialTokens& tokens = options_.tokens;
  const size_t end = source_.find('>', begin);
  if (end == std::string_view::npos) {
    fail(begin, "missing >");
    return {};
  }
  if (!tokens.find || !tokens.contains) {
    fail(begin, "tokens are not supported here");
    return {};
  }
  position_ = end + 1;
  const std::string_view whole = source_.substr(begin, position_ - begin);
  std::optional<TokenId> id;
  if (whole.size() >= 5 && whole[1] == '[' && whole[whole.size() - 2] == ']') {
    int64_t number = 0;
    for (const char c : whole.substr(2, whole.size() - 4)) {
      if (!is_decimal(c) || number > INT32_MAX) {
        fail(begin, "a token's id is a number");
        return {};
      }
      number = number * 10 + (c - '0');
    }
    if (number <= INT32_MAX && tokens.contains(number)) id = static_cast<TokenId>(number);
  } else {
    id = tokens.find(whole);
  }
  if (!id) {
    fail(begin, "the model has no such special token");
    return {};
  }
  return symbol_expression({Symbol::Kind::kToken, *id});
}

// ---- Repeats ----

Expression GbnfParser::parse_repeats(Expression item) {
  skip_space();
  uint32_t min = 0;
  uint32_t max = RegularNode::kUnlimited;
  if (take("+")) {
    min = 1;
  } else if (take("?")) {
    max = 1;
  } else if (!take("*") && !parse_braces(min, max)) {
    return item;
  }
  skip_space();
  if (!at_end() && std::string_view("*+?{").find(peek()) != std::string_view::npos)
    fail(position_, "a repeat of a repeat needs parentheses");
  charge(4);
  return repeat_expression(std::move(item), min, max);
}

// {m}, {m,} or {m,n}.
bool GbnfParser::parse_braces(uint32_t& min, uint32_t& max) {
  const size_t begin = position_;
  if (!take("{")) return false;
  skip_space();
  min = parse_count();
  max = min;
  skip_space();
  if (take(",")) {
    skip_space();
    max = is_decimal(peek()) ? parse_count() : RegularNode::kUnlimited;
    skip_space();
  }
  if (!failed() && !take("}")) fail(begin, "missing }");
  if (min > max) fail(begin, "the lowest number of a repeat is above the highest");
  return true;
}

uint32_t GbnfParser::parse_count() {
  const size_t begin = position_;
  const auto limit = static_cast<uint32_t>(options_.limits.states_of_lexeme);
  if (!is_decimal(peek())) fail(begin, "a repeat needs a number");
  uint32_t count = 0;
  while (is_decimal(peek())) {
    count = count * 10 + static_cast<uint32_t>(peek() - '0');
    ++position_;
    if (count > limit) fail(begin, cat("a repeat has more than ", limit, " times"));
  }
  return failed() ? 0 : count;
}

// ---- Escapes ----

char32_t GbnfParser::parse_escape() {
  struct Escape {
    char letter;
    char32_t character;
  };
  static constexpr std::array<Escape, 8> kEscapes = {
      {{'t', '\t'}, {'n', '\n'}, {'r', '\r'}, {'a', '\a'}, {'b', '\b'}, {'f', '\f'}, {'v', '\v'}, {'0', 0}}};
  const size_t begin = position_;
  ++position_;
  const char c = peek();
  if (at_end() || static_cast<uint8_t>(c) >= 0x80) {
    fail(begin, "unknown escape");
    return 0;
  }
  ++position_;
  if (c == 'x') return parse_hex(begin, 2);
  if (c == 'u') return parse_hex(begin, 4);
  if (c == 'U') return parse_hex(begin, 8);
  for (const Escape& escape : kEscapes)
    if (escape.letter == c) return escape.character;
  if (is_name_character(c) && c != '-' && c != '_')
    fail(begin, cat("unknown escape \\", std::string_view(&c, 1)));
  return static_cast<uint8_t>(c);
}

char32_t GbnfParser::parse_hex(size_t begin, int digits) {
  char32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const char c = peek();
    const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (at_end() || (!is_decimal(c) && !letter)) {
      fail(begin, cat("an escape needs ", digits, " hexadecimal digits"));
      return 0;
    }
    value = value * 16 + static_cast<char32_t>(letter ? (c & 0xF) + 9 : c - '0');
    ++position_;
  }
  if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) fail(begin, "an escape is not a character");
  return failed() ? 0 : value;
}

}  // namespace

Result<Symbol> add_gbnf(Grammar& grammar, std::string_view source, const GbnfOptions& options) {
  return GbnfParser(source, options).parse_into(grammar);
}

Result<Grammar> parse_gbnf(std::string_view source, const GbnfOptions& options) {
  Grammar grammar;
  const auto root = add_gbnf(grammar, source, options);
  if (!root.ok()) return root.failure();
  set_start(grammar, *root);
  return grammar;
}

}  // namespace quire::grammar
