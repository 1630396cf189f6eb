#include <algorithm>
#include <array>

#include "text/chat/jinja/filters.h"
#include "text/chat/jinja/parser.h"
#include "text/chat/jinja/parser_impl.h"
#include "text/chat/jinja/tests.h"

namespace quire::jinja {
namespace {

struct OperatorName {
  std::string_view text;
  Operator op;
};
constexpr OperatorName kSums[] = {{"+", Operator::kAdd}, {"-", Operator::kSub}};
constexpr OperatorName kProducts[] = {
    {"*", Operator::kMul}, {"/", Operator::kDiv}, {"//", Operator::kFloorDiv}, {"%", Operator::kMod}};

struct ComparisonName {
  std::string_view text;
  Comparison op;
};
constexpr ComparisonName kComparisons[] = {{"==", Comparison::kEq}, {"!=", Comparison::kNe},
                                           {"<", Comparison::kLt},  {"<=", Comparison::kLe},
                                           {">", Comparison::kGt},  {">=", Comparison::kGe}};

template <typename Row, size_t N>
const Row* find_operator(const Row (&rows)[N], const Token& token) {
  if (token.kind != TokenKind::kOperator) return nullptr;
  const auto* found =
      std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.text == token.text; });
  return found == std::end(rows) ? nullptr : found;
}

}  // namespace

Expr* Parser::seal(Expr* expr) const {
  int depth = 0;
  const auto take = [&](const Expr* child) {
    if (child != nullptr) depth = std::max(depth, child->depth);
  };
  take(expr->first);
  take(expr->second);
  take(expr->third);
  for (const Expr* item : expr->items) take(item);
  for (const Expr* item : expr->arguments.positional) take(item);
  for (const auto& [name, item] : expr->arguments.keywords) take(item);
  take(expr->arguments.star);
  take(expr->arguments.star_star);
  expr->depth = depth + 1;
  if (expr->depth > kMaxExprDepth) fail_at("the expression has more than 400 levels", expr->line);
  return expr;
}

Expr* Parser::binary(Operator op, Expr* left, Expr* right, int line) {
  Expr* expr = make(ExprKind::kBinary, line);
  expr->op = op;
  expr->first = left;
  expr->second = right;
  return seal(expr);
}

Expr* Parser::parse_expression(bool with_condition) {
  const Nest nest(*this);
  return with_condition ? parse_condition() : parse_or();
}

Expr* Parser::parse_condition() {
  int line = current().line;
  Expr* expr = parse_or();
  while (skip_name("if")) {
    Expr* whole = make(ExprKind::kConditional, line);
    whole->first = expr;
    whole->second = parse_or();
    if (skip_name("else")) {
      const Nest nest(*this);
      whole->third = parse_condition();
    }
    expr = seal(whole);
    line = current().line;
  }
  return expr;
}

Expr* Parser::parse_or() {
  Expr* expr = parse_and();
  while (at_name("or")) {
    Expr* whole = make(ExprKind::kOr, next().line);
    whole->first = expr;
    whole->second = parse_and();
    expr = seal(whole);
  }
  return expr;
}

Expr* Parser::parse_and() {
  Expr* expr = parse_not();
  while (at_name("and")) {
    Expr* whole = make(ExprKind::kAnd, next().line);
    whole->first = expr;
    whole->second = parse_not();
    expr = seal(whole);
  }
  return expr;
}

Expr* Parser::parse_not() {
  if (!at_name("not")) return parse_compare();
  const Nest nest(*this);
  Expr* expr = make(ExprKind::kNot, next().line);
  expr->first = parse_not();
  return seal(expr);
}

Expr* Parser::parse_compare() {
  const int line = current().line;
  Expr* expr = parse_sum();
  Expr* chain = nullptr;
  for (;;) {
    Comparison op;
    if (const auto* row = find_operator(kComparisons, current())) {
      next();
      op = row->op;
    } else if (skip_name("in")) {
      op = Comparison::kIn;
    } else if (at_name("not") && look().kind == TokenKind::kName && look().text == "in") {
      next();
      next();
      op = Comparison::kNotIn;
    } else {
      break;
    }
    if (chain == nullptr) {
      chain = make(ExprKind::kCompare, line);
      chain->items.push_back(expr);
    }
    chain->comparisons.push_back(op);
    chain->items.push_back(parse_sum());
  }
  return chain == nullptr ? expr : seal(chain);
}

Expr* Parser::parse_sum() {
  Expr* expr = parse_concat();
  while (const auto* row = find_operator(kSums, current())) {
    const int line = next().line;
    expr = binary(row->op, expr, parse_concat(), line);
  }
  return expr;
}

Expr* Parser::parse_concat() {
  const int line = current().line;
  Expr* expr = parse_product();
  if (!at_op("~")) return expr;
  Expr* whole = make(ExprKind::kConcat, line);
  whole->items.push_back(expr);
  while (skip_op("~")) whole->items.push_back(parse_product());
  return seal(whole);
}

Expr* Parser::parse_product() {
  Expr* expr = parse_power();
  while (const auto* row = find_operator(kProducts, current())) {
    const int line = next().line;
    expr = binary(row->op, expr, parse_power(), line);
  }
  return expr;
}

// In jinja2, ** is left-associative and has lower precedence than a sign, unlike in Python.
Expr* Parser::parse_power() {
  Expr* expr = parse_unary();
  while (at_op("**")) {
    const int line = next().line;
    expr = binary(Operator::kPow, expr, parse_unary(), line);
  }
  return expr;
}

Expr* Parser::parse_unary(bool with_filter) {
  Expr* expr;
  if (at_op("-") || at_op("+")) {
    const Nest nest(*this);
    expr = make(at_op("-") ? ExprKind::kNegate : ExprKind::kPlus, current().line);
    next();
    expr->first = parse_unary(false);
    expr = seal(expr);
  } else {
    expr = parse_primary();
  }
  expr = parse_postfix(expr);
  return with_filter ? parse_filters_and_tests(expr) : expr;
}

Expr* Parser::parse_primary(bool with_namespace) {
  const Token& token = current();
  const auto constant = [&](Value value) {
    Expr* expr = make(ExprKind::kConst, token.line);
    expr->value = std::move(value);
    return expr;
  };
  switch (token.kind) {
    case TokenKind::kName: {
      next();
      if (token.text == "true" || token.text == "True") return constant(Value::boolean(true));
      if (token.text == "false" || token.text == "False") return constant(Value::boolean(false));
      if (token.text == "none" || token.text == "None") return constant(Value::none());
      Expr* expr = make(ExprKind::kName, token.line);
      expr->value = program_.intern(token.text);
      if (with_namespace && skip_op(".")) {
        expr->kind = ExprKind::kNamespaceRef;
        expr->attribute = program_.intern(expect(TokenKind::kName).text);
      }
      return expr;
    }
    case TokenKind::kString: {
      std::string text;
      while (current().kind == TokenKind::kString) text += next().text;
      return constant(program_.intern(text));
    }
    case TokenKind::kInteger:
      next();
      return constant(token.big ? program_.big_integer(token.text) : Value::integer(token.integer));
    case TokenKind::kFloat:
      next();
      return constant(Value::real(token.real));
    case TokenKind::kOperator:
      if (skip_op("(")) {
        Expr* expr = parse_tuple(false, true, {}, true, false);
        expect_op(")");
        return expr;
      }
      if (at_op("[")) return parse_list();
      if (at_op("{")) return parse_dict();
      break;
    default:
      break;
  }
  fail_expected("an expression");
}

Expr* Parser::parse_tuple(bool simplified, bool with_condition, std::string_view end_name, bool parenthesised,
                          bool with_namespace) {
  const int line = current().line;
  std::vector<Expr*> items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) expect_op(",");
    if (current().kind == TokenKind::kVariableEnd || current().kind == TokenKind::kBlockEnd || at_op(")") ||
        (!end_name.empty() && at_name(end_name))) {
      break;
    }
    items.push_back(simplified ? parse_primary(with_namespace) : parse_expression(with_condition));
    if (!at_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return items[0];
    if (!parenthesised) fail_expected("an expression");
  }
  Expr* expr = make(ExprKind::kTuple, line);
  expr->items = std::move(items);
  return seal(expr);
}

Expr* Parser::parse_assign_target(bool name_only, std::string_view end_name, bool with_namespace) {
  const int line = current().line;
  Expr* target;
  if (name_only) {
    target = make(ExprKind::kName, line);
    target->value = program_.intern(expect(TokenKind::kName).text);
  } else {
    target = parse_tuple(true, true, end_name, false, with_namespace);
  }
  // A primary may contain any expression in brackets, so nested expressions are checked with a list instead
  // of recursion.
  std::vector<const Expr*> pending{target};
  while (!pending.empty()) {
    const Expr* expr = pending.back();
    pending.pop_back();
    if (expr->kind == ExprKind::kTuple) {
      pending.insert(pending.end(), expr->items.begin(), expr->items.end());
    } else if (expr->kind != ExprKind::kName && expr->kind != ExprKind::kNamespaceRef) {
      fail_at("can't assign to this expression, expected a name", line);
    }
  }
  return target;
}

Expr* Parser::parse_list() {
  Expr* expr = make(ExprKind::kList, current().line);
  expect_op("[");
  while (!at_op("]")) {
    if (!expr->items.empty()) expect_op(",");
    if (at_op("]")) break;
    expr->items.push_back(parse_expression());
  }
  expect_op("]");
  return seal(expr);
}

Expr* Parser::parse_dict() {
  Expr* expr = make(ExprKind::kDict, current().line);
  expect_op("{");
  while (!at_op("}")) {
    if (!expr->items.empty()) expect_op(",");
    if (at_op("}")) break;
    expr->items.push_back(parse_expression());
    expect_op(":");
    expr->items.push_back(parse_expression());
  }
  expect_op("}");
  return seal(expr);
}

Expr* Parser::parse_postfix(Expr* expr) {
  for (;;) {
    if (at_op(".") || at_op("[")) {
      expr = parse_subscript(expr);
    } else if (at_op("(")) {
      expr = parse_call(expr);
    } else {
      return expr;
    }
  }
}

Expr* Parser::parse_filters_and_tests(Expr* expr) {
  for (;;) {
    if (at_op("|")) {
      expr = parse_filter(expr, false);
    } else if (at_name("is")) {
      expr = parse_test(expr);
    } else if (at_op("(")) {
      expr = parse_call(expr);
    } else {
      return expr;
    }
  }
}

Expr* Parser::parse_subscript(Expr* object) {
  const int line = current().line;
  if (skip_op(".")) {
    const Token& name = next();
    if (name.kind == TokenKind::kName) {
      Expr* expr = make(ExprKind::kAttribute, line);
      expr->first = object;
      expr->value = program_.intern(name.text);
      return seal(expr);
    }
    if (name.kind != TokenKind::kInteger || name.big) fail_at("expected name or number after '.'", name.line);
    Expr* expr = make(ExprKind::kSubscript, line);
    expr->first = object;
    expr->second = make(ExprKind::kConst, line);
    expr->second->value = Value::integer(name.integer);
    return seal(expr);
  }
  expect_op("[");
  std::vector<Expr*> parts;
  while (!at_op("]")) {
    if (!parts.empty()) expect_op(",");
    parts.push_back(parse_subscribed(object));
  }
  expect_op("]");
  if (parts.size() == 1 && parts[0]->kind == ExprKind::kSlice && parts[0]->first == object) return parts[0];
  Expr* expr = make(ExprKind::kSubscript, line);
  expr->first = object;
  if (parts.size() == 1) {
    expr->second = parts[0];
  } else {
    expr->second = make(ExprKind::kTuple, line);
    expr->second->items = std::move(parts);
    seal(expr->second);
  }
  return seal(expr);
}

// For a slice, returns the whole expression object[a:b:c], otherwise only the subscript.
Expr* Parser::parse_subscribed(Expr* object) {
  const int line = current().line;
  Expr* lower = nullptr;
  if (!at_op(":")) {
    lower = parse_expression();
    if (!at_op(":")) return lower;
  }
  expect_op(":");
  Expr* expr = make(ExprKind::kSlice, line);
  expr->first = object;
  expr->items = {lower, nullptr, nullptr};
  if (!at_op(":") && !at_op("]") && !at_op(",")) expr->items[1] = parse_expression();
  if (skip_op(":") && !at_op("]") && !at_op(",")) expr->items[2] = parse_expression();
  return seal(expr);
}

CallArguments Parser::parse_arguments() {
  const int line = current().line;
  CallArguments args;
  const auto ensure = [&](bool good) {
    if (!good)
      fail_at("invalid syntax for function call expression: expected positional before keyword arguments",
              line);
  };
  expect_op("(");
  bool require_comma = false;
  while (!at_op(")")) {
    if (require_comma) {
      expect_op(",");
      if (at_op(")")) break;
    }
    if (skip_op("*")) {
      ensure(args.star == nullptr && args.star_star == nullptr);
      args.star = parse_expression();
    } else if (skip_op("**")) {
      ensure(args.star_star == nullptr);
      args.star_star = parse_expression();
    } else if (current().kind == TokenKind::kName && look().kind == TokenKind::kOperator &&
               look().text == "=") {
      ensure(args.star_star == nullptr);
      Value name = program_.intern(next().text);
      next();
      for (const auto& keyword : args.keywords) {
        if (keyword.first.object() == name.object()) fail_here("keyword argument repeated: " + name.str());
      }
      args.keywords.emplace_back(std::move(name), parse_expression());
    } else {
      ensure(args.star == nullptr && args.star_star == nullptr && args.keywords.empty());
      args.positional.push_back(parse_expression());
    }
    require_comma = true;
  }
  expect_op(")");
  return args;
}

Expr* Parser::parse_call(Expr* callee) {
  Expr* expr = make(ExprKind::kCall, current().line);
  expr->first = callee;
  expr->arguments = parse_arguments();
  return seal(expr);
}

std::string Parser::dotted_name() {
  std::string name = expect(TokenKind::kName).text;
  while (skip_op(".")) name += "." + expect(TokenKind::kName).text;
  return name;
}

Expr* Parser::parse_filter(Expr* input, bool inline_start) {
  while (at_op("|") || inline_start) {
    if (!inline_start) next();
    inline_start = false;
    Expr* expr = make(ExprKind::kFilter, current().line);
    expr->first = input;
    const std::string name = dotted_name();
    expr->value = program_.intern(name);
    expr->filter = find_filter(name);
    if (at_op("(")) expr->arguments = parse_arguments();
    input = seal(expr);
  }
  return input;
}

Expr* Parser::parse_test(Expr* input) {
  Expr* expr = make(ExprKind::kTest, next().line);
  expr->first = input;
  expr->negated = skip_name("not");
  const std::string name = dotted_name();
  expr->value = program_.intern(name);
  expr->test = find_test(name);
  const auto kind = current().kind;
  if (at_op("(")) {
    expr->arguments = parse_arguments();
  } else if ((kind == TokenKind::kName || kind == TokenKind::kString || kind == TokenKind::kInteger ||
              kind == TokenKind::kFloat || at_op("[") || at_op("{")) &&
             !at_name("else") && !at_name("or") && !at_name("and")) {
    if (at_name("is")) fail_here("You cannot chain multiple tests with is");
    const Nest nest(*this);
    expr->arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  return seal(expr);
}

}  // namespace quire::jinja
