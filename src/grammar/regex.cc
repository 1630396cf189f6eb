#include "grammar/regex.h"

#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "grammar/character_set.h"
#include "grammar/regex_scanner.h"
#include "grammar/regex_tree.h"
#include "text/unicode/unicode.h"

namespace quire::grammar {
namespace {

constexpr std::string_view kTooLarge = "this regular expression takes too much memory";
constexpr std::string_view kQuantifiers = "*+?";

struct Quantifier {
  uint32_t min = 0;
  uint32_t max = 0;
};

size_t total_parts(const std::vector<RegexNode>& nodes) {
  size_t parts = 0;
  for (const RegexNode& node : nodes) parts += node.language->parts.size() + 1;
  return parts;
}

// Recursive descent over one pattern. The first error ends it: every function returns a default value then.
class RegexParser : private RegexScanner {
 public:
  RegexParser(std::string_view pattern, const RegexOptions& options)
      : RegexScanner(pattern, options.dialect == RegexOptions::Dialect::kPython),
        options_(options),
        budget_{static_cast<int64_t>(options.limits.memory_bytes)},
        languages_(options.encode, budget_) {}

  Result<Regular> parse();

 private:
  RegexNode parse_alternatives(int depth);
  RegexNode parse_sequence(int depth);
  RegexNode parse_term(int depth);
  RegexNode parse_escaped_term(size_t begin);
  RegexNode parse_group(int depth);
  RegexNode parse_group_content(size_t begin, int depth);
  RegexNode parse_look_ahead(size_t begin, int depth);
  RegexNode anchor(size_t begin, RegexNode::Kind kind);
  void skip_name(size_t begin);
  bool parse_flags(size_t begin, RegexFlags& flags);
  void apply_flag(size_t position, char flag, bool value, RegexFlags& flags);
  void parse_leading_flags();
  void skip_comments();

  std::optional<Quantifier> parse_quantifier();
  std::optional<Quantifier> parse_braces();
  uint32_t parse_count();
  bool at_quantifier();
  RegexNode quantified(RegexNode node, size_t begin, bool repeatable);

  RegexNode dot();
  RegexNode character_node(size_t begin, char32_t c);
  Regular language_of(const CharacterSet& set);
  void charge(size_t parts);

  const RegexOptions& options_;
  MemoryBudget budget_;
  CharacterLanguages languages_;
};

Result<Regular> RegexParser::parse() {
  if (pattern_.size() > options_.limits.specification_bytes)
    return invalid_argument(cat("byte ", options_.limits.specification_bytes,
                                ": the regular expression is too long (", pattern_.size(), " bytes)"));
  size_t length = 0;
  for (size_t i = 0; i < pattern_.size(); i += length) {
    if (unicode::scan(pattern_.substr(i, 4), &length) != unicode::Utf8State::kComplete)
      return invalid_argument(cat("byte ", i, ": the regular expression is not valid UTF-8"));
  }
  parse_leading_flags();
  const RegexNode tree = parse_alternatives(0);
  if (!failed() && !at_end()) fail(position_, "unmatched )");
  if (failed()) return invalid_argument(message_);
  const Regular any_text = repeat(language_of(complement_set({})), 0);
  const auto language = regex_language(tree, options_.search, any_text, language_of({{'\n', '\n'}}), budget_);
  if (!language) return invalid_argument(cat("byte 0: ", kTooLarge));
  return *language;
}

RegexNode RegexParser::parse_alternatives(int depth) {
  std::vector<RegexNode> alternatives;
  do {
    alternatives.push_back(parse_sequence(depth));
  } while (!failed() && take("|"));
  if (alternatives.size() > 1) charge(total_parts(alternatives));
  if (failed()) return plain_node(nothing());
  return union_node(std::move(alternatives));
}

RegexNode RegexParser::parse_sequence(int depth) {
  std::vector<RegexNode> nodes;
  std::vector<Regular> run;  // parts without assertions since the last node
  const auto end_run = [&] {
    if (run.empty()) return;
    size_t parts = 0;
    for (const Regular& part : run) parts += part->parts.size() + 1;
    charge(parts);
    nodes.push_back(plain_node(failed() ? nothing() : concat(std::move(run))));
    run.clear();
  };
  skip_comments();
  while (!failed() && !at_end() && peek() != '|' && peek() != ')') {
    RegexNode node = parse_term(depth);
    if (node.kind == RegexNode::Kind::kPlain) {
      run.push_back(std::move(node.language));
    } else {
      end_run();
      nodes.push_back(std::move(node));
    }
    skip_comments();
  }
  end_run();
  if (nodes.size() > 1) charge(total_parts(nodes));
  if (failed()) return plain_node(nothing());
  if (nodes.empty()) return plain_node(empty_text());
  return concat_node(std::move(nodes));
}

RegexNode RegexParser::parse_term(int depth) {
  const size_t begin = position_;
  switch (peek()) {
    case '(':
      return parse_group(depth);
    case '[':
      return quantified(plain_node(language_of(parse_class())), begin, true);
    case '.':
      ++position_;
      return quantified(dot(), begin, true);
    case '^':
      ++position_;
      return quantified(anchor(begin, RegexNode::Kind::kStart), begin, false);
    case '$':
      ++position_;
      return quantified(anchor(begin, python_ ? RegexNode::Kind::kEndOrNewline : RegexNode::Kind::kEnd),
                        begin, false);
    case '\\':
      return parse_escaped_term(begin);
    default:
      break;
  }
  if (at_quantifier()) {
    fail(begin, "a repeat without an operand");
    return plain_node(nothing());
  }
  return quantified(character_node(begin, take_character()), begin, true);
}

RegexNode RegexParser::parse_escaped_term(size_t begin) {
  const RegexAtom atom = parse_escape(false);
  if (failed()) return plain_node(nothing());
  switch (atom.kind) {
    case RegexAtom::Kind::kStart:
      return quantified(assertion_node(RegexNode::Kind::kStart), begin, false);
    case RegexAtom::Kind::kEnd:
      return quantified(assertion_node(RegexNode::Kind::kEnd), begin, false);
    case RegexAtom::Kind::kSet:
      return quantified(plain_node(language_of(atom.set)), begin, true);
    case RegexAtom::Kind::kCharacter:
      break;
  }
  return quantified(character_node(begin, atom.character), begin, true);
}

RegexNode RegexParser::anchor(size_t begin, RegexNode::Kind kind) {
  if (flags_.multi_line) fail(begin, "^ and $ with the flag m are not supported");
  charge(1);
  return assertion_node(kind);
}

// ---- Groups ----

RegexNode RegexParser::parse_group(int depth) {
  const size_t begin = position_;
  if (depth >= options_.limits.nesting) {
    fail(begin, cat("groups are nested more than ", options_.limits.nesting, " deep"));
    return plain_node(nothing());
  }
  const RegexFlags outside = flags_;
  ++position_;
  bool look_around = false;
  RegexNode node = plain_node(nothing());
  if (peek() == '?' && (peek(1) == '=' || peek(1) == '!')) {
    look_around = true;
    node = parse_look_ahead(begin, depth + 1);
  } else {
    node = parse_group_content(begin, depth + 1);
  }
  flags_ = outside;
  if (failed()) return plain_node(nothing());
  return quantified(std::move(node), begin, !look_around);
}

// After "(". Leaves the position after ")".
RegexNode RegexParser::parse_group_content(size_t begin, int depth) {
  if (take("?")) {
    if (take("<=") || take("<!")) {
      fail(begin, "look-behind assertions are not supported");
    } else if (take("P=")) {
      fail(begin, "back-references are not supported");
    } else if (take(">")) {
      fail(begin, "atomic groups are not supported");
    } else if (take("(")) {
      fail(begin, "conditional groups are not supported");
    } else if (take("P<") || take("<")) {
      skip_name(begin);
    } else if (!take(":")) {
      RegexFlags flags = flags_;
      if (parse_flags(begin, flags) && !take(":"))
        fail(begin,
             at_end() ? "missing )" : "flags apply to a group, as in (?i:...), or to all at the start");
      flags_ = flags;
    }
  }
  RegexNode node = parse_alternatives(depth);
  if (!failed() && !take(")")) fail(begin, "missing )");
  return node;
}

RegexNode RegexParser::parse_look_ahead(size_t begin, int depth) {
  const bool negated = peek(1) == '!';
  position_ += 2;
  RegexNode content = parse_alternatives(depth);
  if (!failed() && !take(")")) fail(begin, "missing )");
  charge(1);
  std::vector<RegexNode> parts;
  parts.push_back(std::move(content));
  return assertion_node(negated ? RegexNode::Kind::kNotAhead : RegexNode::Kind::kAhead, std::move(parts));
}

// The name of a group, up to ">".
void RegexParser::skip_name(size_t begin) {
  const size_t end = pattern_.find('>', position_);
  if (end == std::string_view::npos || end == position_) return fail(begin, "a group's name is not complete");
  for (const char c : pattern_.substr(position_, end - position_)) {
    const bool valid =
        is_ascii_letter(c) || is_ascii_digit(c) || c == '_' || c == '$' || static_cast<uint8_t>(c) >= 0x80;
    if (!valid) return fail(begin, "a group's name has an invalid character");
  }
  position_ = end + 1;
}

// Flags up to the character that is not a flag.
bool RegexParser::parse_flags(size_t begin, RegexFlags& flags) {
  bool value = true;
  const size_t first = position_;
  while (!failed() && (is_ascii_letter(peek()) || peek() == '-')) {
    const char flag = peek();
    const size_t at = position_++;
    if (flag != '-') {
      apply_flag(at, flag, value, flags);
    } else if (!value) {
      fail(at, "unknown group (?...");
    } else {
      value = false;
    }
  }
  if (!failed() && position_ == first) fail(begin, "unknown group (?...");
  return !failed();
}

void RegexParser::apply_flag(size_t position, char flag, bool value, RegexFlags& flags) {
  switch (flag) {
    case 'i':
      flags.ignore_case = value;
      break;
    case 's':
      flags.dot_all = value;
      break;
    case 'm':
      flags.multi_line = value;
      break;
    case 'a':
    case 'u':
      if (python_ && value) {
        flags.classes = flag == 'a' ? ClassStyle::kAscii : ClassStyle::kUnicode;
        break;
      }
      [[fallthrough]];
    default:
      fail(position, cat("the flag ", std::string_view(&flag, 1), " is not supported"));
  }
  if (flags.ignore_case && flags.classes == ClassStyle::kUnicode)
    fail(position, "the flags i and u are not supported together");
}

// (?i) at the start is for the whole expression.
void RegexParser::parse_leading_flags() {
  while (!failed() && peek() == '(' && peek(1) == '?') {
    const size_t begin = position_;
    size_t end = position_ + 2;
    while (end < pattern_.size() && is_ascii_letter(pattern_[end])) ++end;
    if (end == position_ + 2 || end >= pattern_.size() || pattern_[end] != ')') return;
    if (pattern_[position_ + 2] == 'P') return;
    position_ += 2;
    if (parse_flags(begin, flags_)) take(")");
  }
}

void RegexParser::skip_comments() {
  while (python_ && !failed() && pattern_.substr(position_, 3) == "(?#") {
    const size_t end = pattern_.find(')', position_);
    if (end == std::string_view::npos) return fail(position_, "missing )");
    position_ = end + 1;
  }
}

// ---- Quantifiers ----

bool RegexParser::at_quantifier() {
  if (at_end()) return false;
  if (kQuantifiers.find(peek()) != std::string_view::npos) return true;
  if (peek() != '{') return false;
  const size_t begin = position_;
  const bool is_quantifier = parse_braces().has_value();
  if (!failed()) position_ = begin;
  return is_quantifier || failed();
}

std::optional<Quantifier> RegexParser::parse_quantifier() {
  if (at_end()) return std::nullopt;
  switch (peek()) {
    case '*':
      ++position_;
      return Quantifier{0, RegularNode::kUnlimited};
    case '+':
      ++position_;
      return Quantifier{1, RegularNode::kUnlimited};
    case '?':
      ++position_;
      return Quantifier{0, 1};
    case '{':
      return parse_braces();
    default:
      return std::nullopt;
  }
}

// {m}, {m,} or {m,n}, and in Python {,n} and {,}. Other braces are ordinary characters: the position stays.
std::optional<Quantifier> RegexParser::parse_braces() {
  const size_t begin = position_;
  ++position_;
  const bool has_min = is_ascii_digit(peek());
  Quantifier quantifier;
  quantifier.min = has_min ? parse_count() : 0;
  quantifier.max = quantifier.min;
  bool has_comma = false;
  if (take(",")) {
    has_comma = true;
    quantifier.max = is_ascii_digit(peek()) ? parse_count() : RegularNode::kUnlimited;
  }
  if (failed()) return std::nullopt;
  if (!take("}") || (!has_min && !has_comma)) {
    position_ = begin;
    return std::nullopt;
  }
  if (!has_min && !python_) {
    fail(begin, "a repeat needs its lowest number, as in {0,n}; write \\{ for the character");
    return std::nullopt;
  }
  if (quantifier.min > quantifier.max) {
    fail(begin, "the lowest number of a repeat is above the highest");
    return std::nullopt;
  }
  return quantifier;
}

uint32_t RegexParser::parse_count() {
  const size_t begin = position_;
  const auto limit = static_cast<uint32_t>(options_.limits.states_of_lexeme);
  uint32_t count = 0;
  while (is_ascii_digit(peek())) {
    count = count * 10 + static_cast<uint32_t>(peek() - '0');
    ++position_;
    if (count > limit) {
      fail(begin, cat("a repeat has more than ", limit, " times"));
      return 0;
    }
  }
  return count;
}

RegexNode RegexParser::quantified(RegexNode node, size_t begin, bool repeatable) {
  if (failed()) return plain_node(nothing());
  skip_comments();
  const size_t at = position_;
  const std::optional<Quantifier> quantifier = parse_quantifier();
  if (failed()) return plain_node(nothing());
  if (!quantifier) return node;
  if (!repeatable) {
    fail(at, "a repeat without an operand");
    return plain_node(nothing());
  }
  if (peek() == '+' && !at_end()) fail(position_, "possessive repeats are not supported");
  take("?");  // lazy: the same language
  if (!failed() && at_quantifier()) fail(position_, "a repeat without an operand");
  charge(1);
  if (failed()) return plain_node(nothing());
  std::optional<RegexNode> repeated = repeat_node(std::move(node), quantifier->min, quantifier->max);
  if (!repeated) {
    fail(begin, "a repeat of anchors or look-ahead is not supported");
    return plain_node(nothing());
  }
  return std::move(*repeated);
}

// ---- Characters and classes ----

RegexNode RegexParser::dot() {
  CharacterSet excluded;
  if (!flags_.dot_all) {
    excluded = {{'\n', '\n'}};
    if (!python_) append_set(excluded, {{'\r', '\r'}, {0x2028, 0x2029}});
  }
  return plain_node(language_of(complement_set(excluded)));
}

RegexNode RegexParser::character_node(size_t begin, char32_t c) {
  CharacterSet set = {{c, c}};
  fold_case(begin, set);
  return plain_node(language_of(set));
}

void RegexParser::charge(size_t parts) {
  if (!budget_.charge(parts)) fail(position_, kTooLarge);
}

Regular RegexParser::language_of(const CharacterSet& set) {
  Regular language = languages_.of(set);
  if (budget_.exceeded()) fail(position_, kTooLarge);
  return language;
}

}  // namespace

Result<Regular> parse_regex(std::string_view pattern, const RegexOptions& options) {
  return RegexParser(pattern, options).parse();
}

}  // namespace quire::grammar
