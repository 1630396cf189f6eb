#include "engine/answer_language.h"

#include <utility>

#include "base/strings.h"

namespace quire {
namespace {

// A constraint as a format of structural tags; nullopt if it has no such form.
std::optional<Json> format_of(const StructuredOutputs& spec) {
  using Kind = StructuredOutputs::Kind;
  const auto parsed = [&] { return Json::parse(spec.text, nullptr, false); };
  switch (spec.kind) {
    case Kind::kJsonObject:
      return Json{{"type", "json_schema"}, {"json_schema", {{"type", "object"}}}};
    case Kind::kJsonSchema:
      return Json{{"type", "json_schema"}, {"json_schema", parsed()}};
    case Kind::kRegex:
      return Json{{"type", "regex"}, {"pattern", spec.text}};
    case Kind::kGrammar:
      return Json{{"type", "grammar"}, {"grammar", spec.text}};
    case Kind::kChoice: {
      Json choices = Json::array();
      for (const Json& choice : parsed()) choices.push_back({{"type", "const_string"}, {"value", choice}});
      return Json{{"type", "or"}, {"elements", std::move(choices)}};
    }
    case Kind::kStructuralTag: {
      const Json tag = parsed();
      if (tag.is_object() && tag.contains("format")) return tag["format"];
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

Status add_answer(const StructuredOutputs& answer, OutputGrammarOptions& options,
                  StructuredOutputs& language) {
  using Kind = StructuredOutputs::Kind;
  options.answer = format_of(answer);
  if (!options.answer) {
    return Failure{ErrorKind::kUnsupported,
                   cat(answer.field,
                       ": the form of structural tags with triggers at the top cannot be combined with "
                       "reasoning or tools; use the form with format."),
                   answer.field.substr(0, answer.field.find('.'))};
  }
  options.answer_is_json = answer.kind == Kind::kJsonObject || answer.kind == Kind::kJsonSchema;
  language.field = answer.field;
  language.strict = answer.strict;
  language.disable_any_whitespace = answer.disable_any_whitespace;
  return {};
}

Result<StructuredOutputs> answer_after_reasoning(const StructuredOutputs& answer,
                                                 const OutputParserOptions& reading, bool reasoning_is_over) {
  const bool harmony = reading.calls != nullptr && reading.calls->machine == CallMachine::kHarmony;
  const bool may_reason = reading.reasoning != nullptr && !reasoning_is_over;
  if (!may_reason && !harmony) return answer;
  OutputGrammarOptions options;
  options.calls = harmony ? reading.calls : nullptr;
  options.reasoning = reading.reasoning;
  options.token_of = reading.token_of;
  options.start = reading.start;
  options.reasoning_is_over = reasoning_is_over;
  StructuredOutputs language{.kind = StructuredOutputs::Kind::kStructuralTag};
  if (Status added = add_answer(answer, options, language); !added.ok()) return added.failure();
  language.text = output_grammar(options).dump(-1, ' ', false, Json::error_handler_t::replace);
  return language;
}

}  // namespace quire
