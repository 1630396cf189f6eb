// The recursive descent parser: statements in parser.cc, expressions in parser_expr.cc. Grammar and operator
// precedence are those of jinja2.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "text/chat/jinja/ast.h"
#include "text/chat/jinja/lexer.h"

namespace quire::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, Program& program) : tokens_(std::move(tokens)), program_(program) {}
  void parse_template();

 private:
  using EndTags = std::span<const std::string_view>;

  // Counts one level of nesting during its lifetime.
  struct Nest {
    explicit Nest(Parser& p);
    ~Nest() { --parser.nesting_; }
    Parser& parser;
  };

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  const Token& next() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool at_name(std::string_view name) const {
    return current().kind == TokenKind::kName && current().text == name;
  }
  bool at_op(std::string_view op) const {
    return current().kind == TokenKind::kOperator && current().text == op;
  }
  bool skip_name(std::string_view name);
  bool skip_op(std::string_view op);
  const Token& expect(TokenKind kind);
  void expect_op(std::string_view op);
  [[noreturn]] void fail_at(std::string message, int line) const;
  [[noreturn]] void fail_here(std::string message) const { fail_at(std::move(message), current().line); }
  [[noreturn]] void fail_expected(const std::string& wanted) const;

  // parser.cc
  std::vector<Stmt*> parse_body(EndTags end_tags);
  std::vector<Stmt*> parse_block(EndTags end_tags, bool drop_end);
  [[noreturn]] void fail_unclosed(EndTags end_tags) const;
  [[noreturn]] void fail_unknown_tag(const Token& tag) const;
  Stmt* parse_statement();
  Stmt* parse_if();
  Stmt* parse_for();
  Stmt* parse_set();
  Stmt* parse_macro();
  Stmt* parse_call();
  Stmt* parse_filter_block();
  Stmt* parse_with();
  Stmt* parse_print();
  Stmt* parse_generation();
  Stmt* parse_loop_control();
  Stmt* parse_unsupported();
  void parse_signature(MacroDefinition& macro);
  void append_output(std::vector<Stmt*>& body, Expr* expr);

  // parser_expr.cc
  Expr* make(ExprKind kind, int line) { return program_.expr(kind, line); }
  Expr* seal(Expr* expr) const;  // computes and checks the depth
  Expr* binary(Operator op, Expr* left, Expr* right, int line);
  Expr* parse_expression(bool with_condition = true);
  Expr* parse_condition();
  Expr* parse_or();
  Expr* parse_and();
  Expr* parse_not();
  Expr* parse_compare();
  Expr* parse_sum();
  Expr* parse_concat();
  Expr* parse_product();
  Expr* parse_power();
  Expr* parse_unary(bool with_filter = true);
  Expr* parse_primary(bool with_namespace = false);
  Expr* parse_tuple(bool simplified, bool with_condition, std::string_view end_name, bool parenthesised,
                    bool with_namespace);
  Expr* parse_tuple() { return parse_tuple(false, true, {}, false, false); }
  Expr* parse_assign_target(bool name_only, std::string_view end_name, bool with_namespace);
  Expr* parse_list();
  Expr* parse_dict();
  Expr* parse_postfix(Expr* expr);
  Expr* parse_filters_and_tests(Expr* expr);
  Expr* parse_subscript(Expr* expr);
  Expr* parse_subscribed(Expr* object);
  Expr* parse_call(Expr* callee);
  Expr* parse_filter(Expr* input, bool inline_start);
  Expr* parse_test(Expr* input);
  CallArguments parse_arguments();
  std::string dotted_name();

  std::vector<Token> tokens_;
  Program& program_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;  // number of loops around the statement, in the same macro
  std::vector<EndTags> end_tags_;
  std::vector<std::string> open_tags_;
};

}  // namespace quire::jinja
