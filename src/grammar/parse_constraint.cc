#include "grammar/parse_constraint.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "grammar/choice.h"
#include "grammar/gbnf.h"
#include "grammar/regex.h"
#include "grammar/schema.h"
#include "grammar/structural_tag.h"

namespace quire::grammar {
namespace {

SchemaOptions schema_options(const StructuredOutputs& spec, const Limits& limits) {
  SchemaOptions options;
  options.spacing = spec.disable_any_whitespace ? JsonSpacing::kSpaced : JsonSpacing::kFree;
  // Clients parse 3.0 as a float, also where the schema asks for an integer.
  options.numbers = NumberSpelling::kShortest;
  options.limits = limits;
  return options;
}

Status refuse_ignored(const std::vector<std::string>& ignored, bool strict) {
  if (!strict || ignored.empty()) return {};
  return invalid_argument(cat(ignored.front(), ": has no effect, and strict is set."));
}

// A few, since a response names them.
void note_ignored(Grammar& grammar, const std::string& prefix, const std::vector<std::string>& pointers) {
  constexpr size_t kMaxNoted = 32;
  constexpr size_t kMaxBytes = 200;
  for (const std::string& pointer : pointers) {
    if (grammar.ignored.size() < kMaxNoted)
      grammar.ignored.push_back(cat(prefix, pointer).substr(0, kMaxBytes));
  }
}

Result<Grammar> parse_json_schema(const SchemaJson& schema, const StructuredOutputs& spec,
                                  const Limits& limits) {
  Result<SchemaGrammar> parsed = schema_grammar(schema, schema_options(spec, limits));
  if (!parsed.ok()) return parsed.failure();
  if (Status ignored = refuse_ignored(parsed->ignored, spec.strict); !ignored.ok()) return ignored.failure();
  note_ignored(parsed->grammar, "", parsed->ignored);
  return std::move(parsed->grammar);
}

Result<Grammar> parse_lexeme(const std::string& pattern, const Limits& limits) {
  RegexOptions options;
  options.dialect = RegexOptions::Dialect::kPython;
  options.limits = limits;
  Result<Regular> language = parse_regex(pattern, options);
  if (!language.ok()) return language.failure();
  Grammar grammar;
  const Symbol root = add_rule(grammar, "regex");
  const Symbol lexeme = add_lexeme(grammar, std::move(*language));
  grammar.rules[static_cast<size_t>(root.id)].alternatives = {{lexeme}};
  grammar.start = root.id;
  return grammar;
}

Result<Grammar> parse_choices(const std::string& json, const Limits& limits) {
  const Result<SchemaJson> list = parse_schema(json, limits);
  if (!list.ok()) return list.failure();
  std::vector<std::string> choices;
  for (const SchemaJson& choice : *list) {
    if (!choice.is_string()) return invalid_argument("every choice must be a string.");
    choices.push_back(choice.get<std::string>());
  }
  return parse_choice(choices, limits);
}

Result<Grammar> parse_tag(const StructuredOutputs& spec, const SpecialTokens& tokens, const Limits& limits) {
  const Result<SchemaJson> tag = parse_schema(spec.text, limits);
  if (!tag.ok()) return tag.failure();
  StructuralTagOptions options;
  options.tokens = tokens;
  options.limits = limits;
  options.add_schema = [&](Grammar& grammar, const SchemaJson& schema,
                           const std::string& pointer) -> Result<Symbol> {
    Result<AddedSchema> added = add_schema(grammar, schema, schema_options(spec, limits));
    if (!added.ok()) return invalid_argument(cat(pointer, added.failure().message));
    if (Status ignored = refuse_ignored(added->ignored, spec.strict); !ignored.ok()) return ignored.failure();
    note_ignored(grammar, pointer, added->ignored);
    return added->symbol;
  };
  return parse_structural_tag(*tag, options);
}

}  // namespace

Result<Grammar> parse_constraint(const StructuredOutputs& spec, const SpecialTokens& tokens,
                                 const Limits& limits) {
  using Kind = StructuredOutputs::Kind;
  if (spec.text.size() > limits.specification_bytes) {
    return invalid_argument(
        cat("it has ", spec.text.size(), " bytes; the maximum is ", limits.specification_bytes, "."));
  }
  switch (spec.kind) {
    case Kind::kJsonObject:
      return parse_json_schema({{"type", "object"}}, spec, limits);
    case Kind::kJsonSchema: {
      const Result<SchemaJson> schema = parse_schema(spec.text, limits);
      if (!schema.ok()) return schema.failure();
      return parse_json_schema(*schema, spec, limits);
    }
    case Kind::kRegex:
      return parse_lexeme(spec.text, limits);
    case Kind::kChoice:
      return parse_choices(spec.text, limits);
    case Kind::kGrammar:
      return parse_gbnf(spec.text, {.tokens = tokens, .limits = limits});
    case Kind::kStructuralTag:
      return parse_tag(spec, tokens, limits);
  }
  return invalid_argument("the kind of the constraint is unknown.");
}

}  // namespace quire::grammar
