// Specifications of constrained output: regular expressions, text grammars and structural tags. The first
// byte selects the front end. Each gives a grammar within the limits, or says why not.
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "fuzz/fuzz.h"
#include "grammar/gbnf.h"
#include "grammar/regex.h"
#include "grammar/structural_tag.h"

namespace quire::grammar {
namespace {

void check_failure(const Failure& failure) {
  fuzz::require(!failure.message.empty() && failure.message.size() < 1'000, "a refusal is a short message");
  fuzz::require(is_valid_utf8(failure.message), "a refusal is UTF-8");
}

void check_grammar(const Grammar& grammar, const Limits& limits) {
  fuzz::require(grammar.rules.size() <= limits.rules_and_lexemes + 1, "there are not too many rules");
  fuzz::require(static_cast<size_t>(grammar.start) < grammar.rules.size(), "the start is a rule");
  for (const Rule& rule : grammar.rules) {
    for (const auto& alternative : rule.alternatives) {
      for (const Symbol& symbol : alternative) {
        const auto id = static_cast<size_t>(symbol.id);
        fuzz::require(symbol.kind != Symbol::Kind::kLexeme || id < grammar.lexemes.size(), "a lexeme exists");
        fuzz::require(symbol.kind != Symbol::Kind::kRule || id < grammar.rules.size(), "a rule exists");
        fuzz::require(symbol.kind != Symbol::Kind::kToken || id < 100, "a token exists");
      }
    }
  }
}

void check_regex(std::string_view pattern, const RegexOptions& options) {
  const auto language = parse_regex(pattern, options);
  if (!language.ok()) return check_failure(language.failure());
  fuzz::require(*language != nullptr, "there is a language");
}

void check_gbnf(std::string_view source, const GbnfOptions& options) {
  const auto grammar = parse_gbnf(source, options);
  if (!grammar.ok()) return check_failure(grammar.failure());
  check_grammar(*grammar, options.limits);
}

void check_structural_tag(std::string_view json, const SpecialTokens& tokens) {
  const auto tag = nlohmann::ordered_json::parse(json, nullptr, false);
  if (tag.is_discarded()) return;
  StructuralTagOptions options;
  options.tokens = tokens;
  options.add_schema = [](Grammar& grammar, const nlohmann::ordered_json& schema,
                          const std::string& pointer) -> Result<Symbol> {
    if (schema.is_boolean()) return invalid_argument(pointer + ": not supported");
    return add_lexeme(grammar, text("{}"));
  };
  const auto grammar = parse_structural_tag(tag, options);
  if (!grammar.ok()) return check_failure(grammar.failure());
  // Grammars within the tag have their own limits.
  Limits limits = options.limits;
  limits.rules_and_lexemes *= 1'000;
  check_grammar(*grammar, limits);
}

}  // namespace
}  // namespace quire::grammar

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quire::grammar::RegexOptions;
  if (size == 0) return 0;
  const std::string_view text = quire::fuzz::text_of(data, size).substr(1);
  quire::grammar::SpecialTokens tokens;
  tokens.find = [](std::string_view name) {
    return name == "<t>" ? std::optional<quire::TokenId>(7) : std::nullopt;
  };
  tokens.contains = [](int64_t id) { return id >= 0 && id < 100; };
  switch (data[0]) {
    case 'e':
      quire::grammar::check_regex(text, {.search = true, .encode = {}, .limits = {}});
      break;
    case 'p':
      quire::grammar::check_regex(text,
                                  {.dialect = RegexOptions::Dialect::kPython, .encode = {}, .limits = {}});
      break;
    case 'g':
      quire::grammar::check_gbnf(text, {.tokens = tokens, .limits = {}});
      break;
    case 't':
      quire::grammar::check_structural_tag(text, tokens);
      break;
    default:
      break;
  }
  return 0;
}
