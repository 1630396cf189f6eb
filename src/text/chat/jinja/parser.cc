#include "text/chat/jinja/parser.h"

#include <algorithm>

#include "text/chat/jinja/parser_impl.h"
#include "text/chat/jinja/scope.h"

namespace quire::jinja {

Parser::Nest::Nest(Parser& p) : parser(p) {
  if (parser.nesting_ >= kMaxNesting) parser.fail_here("the template is nested more than 100 levels deep");
  ++parser.nesting_;
}

bool Parser::skip_name(std::string_view name) {
  if (!at_name(name)) return false;
  next();
  return true;
}

bool Parser::skip_op(std::string_view op) {
  if (!at_op(op)) return false;
  next();
  return true;
}

const Token& Parser::expect(TokenKind kind) {
  if (current().kind != kind) fail_expected("'" + describe(kind) + "'");
  return next();
}

void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) fail_expected("'" + std::string(op) + "'");
}

void Parser::fail_at(std::string message, int line) const {
  throw SyntaxError{std::move(message), line};
}

void Parser::fail_expected(const std::string& wanted) const {
  constexpr size_t kShown = 60;
  std::string got = describe(current());
  if (got.size() > kShown) got = got.substr(0, kShown) + "...";
  fail_here("expected " + wanted + ", got '" + got + "'");
}

void Parser::fail_unclosed(EndTags end_tags) const {
  std::string wanted;
  for (const auto tag : end_tags) wanted += (wanted.empty() ? "'" : " or '") + std::string(tag) + "'";
  std::string message = "unexpected end of template, expected the tag " + wanted;
  if (!open_tags_.empty())
    message += "; the innermost block that needs to be closed is '" + open_tags_.back() + "'";
  fail_here(message);
}

void Parser::fail_unknown_tag(const Token& tag) const {
  std::string message = "unknown tag '" + tag.text + "'";
  if (!end_tags_.empty()) {
    std::string wanted;
    for (const auto name : end_tags_.back())
      wanted += (wanted.empty() ? "'" : " or '") + std::string(name) + "'";
    message += ", expected the tag " + wanted;
  }
  if (!open_tags_.empty())
    message += "; the innermost block that needs to be closed is '" + open_tags_.back() + "'";
  fail_at(message, tag.line);
}

void Parser::append_output(std::vector<Stmt*>& body, Expr* expr) {
  if (body.empty() || body.back()->kind != StmtKind::kOutput) {
    body.push_back(program_.stmt(StmtKind::kOutput, expr->line));
  }
  body.back()->outputs.push_back(expr);
}

std::vector<Stmt*> Parser::parse_body(EndTags end_tags) {
  const Nest nest(*this);
  std::vector<Stmt*> body;
  if (!end_tags.empty()) end_tags_.push_back(end_tags);
  while (current().kind != TokenKind::kEnd) {
    const Token& token = next();
    if (token.kind == TokenKind::kData) {
      body.push_back(program_.stmt(StmtKind::kData, token.line));
      body.back()->data = token.text;
    } else if (token.kind == TokenKind::kVariableBegin) {
      append_output(body, parse_tuple());
      expect(TokenKind::kVariableEnd);
    } else {
      if (current().kind == TokenKind::kName &&
          std::find(end_tags.begin(), end_tags.end(), current().text) != end_tags.end()) {
        break;
      }
      body.push_back(parse_statement());
      expect(TokenKind::kBlockEnd);
    }
  }
  if (!end_tags.empty()) end_tags_.pop_back();
  return body;
}

// Parses the rest of an opening tag and the following text, up to one of `end_tags`. The name of the end tag
// is then the current token, or is dropped.
std::vector<Stmt*> Parser::parse_block(EndTags end_tags, bool drop_end) {
  skip_op(":");
  expect(TokenKind::kBlockEnd);
  auto body = parse_body(end_tags);
  if (current().kind == TokenKind::kEnd) fail_unclosed(end_tags);
  if (drop_end) next();
  return body;
}

Stmt* Parser::parse_statement() {
  struct Tag {
    std::string_view name;
    Stmt* (Parser::*parse)();
  };
  static constexpr Tag kTags[] = {
      {"if", &Parser::parse_if},
      {"for", &Parser::parse_for},
      {"set", &Parser::parse_set},
      {"macro", &Parser::parse_macro},
      {"call", &Parser::parse_call},
      {"filter", &Parser::parse_filter_block},
      {"with", &Parser::parse_with},
      {"print", &Parser::parse_print},
      {"generation", &Parser::parse_generation},
      {"break", &Parser::parse_loop_control},
      {"continue", &Parser::parse_loop_control},
      {"include", &Parser::parse_unsupported},
      {"import", &Parser::parse_unsupported},
      {"from", &Parser::parse_unsupported},
      {"extends", &Parser::parse_unsupported},
      {"block", &Parser::parse_unsupported},
      {"autoescape", &Parser::parse_unsupported},
  };
  if (current().kind != TokenKind::kName) fail_expected("the name of a tag");
  const auto* tag = std::find_if(std::begin(kTags), std::end(kTags),
                                 [&](const Tag& t) { return t.name == current().text; });
  if (tag == std::end(kTags)) fail_unknown_tag(current());
  open_tags_.push_back(current().text);
  Stmt* stmt = (this->*tag->parse)();
  open_tags_.pop_back();
  return stmt;
}

Stmt* Parser::parse_if() {
  static constexpr std::string_view kBranchEnds[] = {"elif", "else", "endif"};
  static constexpr std::string_view kElseEnds[] = {"endif"};
  Stmt* stmt = program_.stmt(StmtKind::kIf, next().line);
  for (;;) {
    Branch branch;
    branch.test = parse_tuple(false, false, {}, false, false);
    branch.body = parse_block(kBranchEnds, false);
    stmt->branches.push_back(std::move(branch));
    const Token& end = next();
    if (end.text == "elif") continue;
    if (end.text == "else") stmt->branches.push_back({nullptr, parse_block(kElseEnds, true)});
    return stmt;
  }
}

Stmt* Parser::parse_for() {
  static constexpr std::string_view kBodyEnds[] = {"endfor", "else"};
  static constexpr std::string_view kElseEnds[] = {"endfor"};
  Stmt* stmt = program_.stmt(StmtKind::kFor, next().line);
  stmt->target = parse_assign_target(false, "in", false);
  if (!skip_name("in")) fail_expected("'in'");
  stmt->value = parse_tuple(false, false, "recursive", false, false);
  if (skip_name("if")) stmt->test = parse_expression();
  stmt->recursive = skip_name("recursive");
  ++loops_;
  stmt->body = parse_block(kBodyEnds, false);
  --loops_;
  if (next().text == "else") stmt->otherwise = parse_block(kElseEnds, true);
  return stmt;
}

Stmt* Parser::parse_set() {
  static constexpr std::string_view kEnds[] = {"endset"};
  const int line = next().line;
  Expr* target = parse_assign_target(false, {}, true);
  if (skip_op("=")) {
    Stmt* stmt = program_.stmt(StmtKind::kSet, line);
    stmt->target = target;
    stmt->value = parse_tuple();
    return stmt;
  }
  Stmt* stmt = program_.stmt(StmtKind::kSetBlock, line);
  stmt->target = target;
  stmt->value = parse_filter(nullptr, false);
  stmt->body = parse_block(kEnds, true);
  return stmt;
}

void Parser::parse_signature(MacroDefinition& macro) {
  expect_op("(");
  while (!at_op(")")) {
    if (!macro.params.empty()) expect_op(",");
    Expr* param = parse_assign_target(true, {}, false);
    if (skip_op("=")) {
      macro.defaults.push_back(parse_expression());
    } else if (!macro.defaults.empty()) {
      fail_here("non-default argument follows default argument");
    }
    for (const auto& name : macro.names) {
      if (name.object() == param->value.object()) fail_here("duplicate argument '" + name.str() + "'");
    }
    macro.params.push_back(param);
    macro.names.push_back(param->value);
  }
  expect_op(")");
}

Stmt* Parser::parse_macro() {
  static constexpr std::string_view kEnds[] = {"endmacro"};
  Stmt* stmt = program_.stmt(StmtKind::kMacro, next().line);
  stmt->macro = program_.macro();
  stmt->target = parse_assign_target(true, {}, false);
  stmt->macro->name = stmt->target->value;
  parse_signature(*stmt->macro);
  const int loops = std::exchange(loops_, 0);
  stmt->macro->body = parse_block(kEnds, true);
  loops_ = loops;
  return stmt;
}

Stmt* Parser::parse_call() {
  static constexpr std::string_view kEnds[] = {"endcall"};
  Stmt* stmt = program_.stmt(StmtKind::kCallBlock, next().line);
  stmt->macro = program_.macro();
  if (at_op("(")) parse_signature(*stmt->macro);
  stmt->value = parse_expression();
  if (stmt->value->kind != ExprKind::kCall) fail_at("expected a call", stmt->line);
  const int loops = std::exchange(loops_, 0);
  stmt->macro->body = parse_block(kEnds, true);
  loops_ = loops;
  return stmt;
}

Stmt* Parser::parse_filter_block() {
  static constexpr std::string_view kEnds[] = {"endfilter"};
  Stmt* stmt = program_.stmt(StmtKind::kFilterBlock, next().line);
  stmt->value = parse_filter(nullptr, true);
  stmt->body = parse_block(kEnds, true);
  return stmt;
}

Stmt* Parser::parse_with() {
  static constexpr std::string_view kEnds[] = {"endwith"};
  Stmt* stmt = program_.stmt(StmtKind::kWith, next().line);
  while (current().kind != TokenKind::kBlockEnd) {
    if (!stmt->targets.empty()) expect_op(",");
    stmt->targets.push_back(parse_assign_target(false, {}, false));
    expect_op("=");
    stmt->outputs.push_back(parse_expression());
  }
  stmt->body = parse_block(kEnds, true);
  return stmt;
}

Stmt* Parser::parse_print() {
  Stmt* stmt = program_.stmt(StmtKind::kOutput, next().line);
  while (current().kind != TokenKind::kBlockEnd) {
    if (!stmt->outputs.empty()) expect_op(",");
    stmt->outputs.push_back(parse_expression());
  }
  return stmt;
}

// transformers' tag around the output of the assistant: it prints its body and has its own scope.
Stmt* Parser::parse_generation() {
  static constexpr std::string_view kEnds[] = {"endgeneration"};
  Stmt* stmt = program_.stmt(StmtKind::kScope, next().line);
  const int loops = std::exchange(loops_, 0);
  stmt->body = parse_block(kEnds, true);
  loops_ = loops;
  return stmt;
}

Stmt* Parser::parse_loop_control() {
  const Token& token = next();
  if (loops_ == 0) fail_at("'" + token.text + "' outside of a loop", token.line);
  return program_.stmt(token.text == "break" ? StmtKind::kBreak : StmtKind::kContinue, token.line);
}

Stmt* Parser::parse_unsupported() {
  fail_here("the tag '" + current().text +
            "' is not supported: a chat template is a single file without escaping, "
            "expected if, for, set, macro, call, filter, with, generation, break or continue");
}

void Parser::parse_template() {
  program_.body = parse_body({});
  resolve_variables(program_);
}

void parse_program(std::string_view source, Program& program) {
  Parser(tokenize(source), program).parse_template();
}

}  // namespace quire::jinja
