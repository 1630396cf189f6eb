#include "server/openai/output_language.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "engine/answer_language.h"
#include "text/output/output_grammar.h"

namespace quire {
namespace {

using Kind = StructuredOutputs::Kind;

const Json& function_of(const Json& tool) {
  return tool["function"];
}

bool is_strict(const Json& tool) {
  const auto strict = function_of(tool).find("strict");
  return strict != function_of(tool).end() && *strict == true;
}

// The schema of a tool's arguments, which are an object.
Json schema_of(const Json& tool) {
  const auto parameters = function_of(tool).find("parameters");
  Json schema = Json::object();
  if (parameters != function_of(tool).end() && parameters->is_object()) schema = *parameters;
  if (!schema.contains("type")) schema["type"] = "object";
  return schema;
}

struct Wanted {
  bool calls = false;  // calls are constrained
  bool only_calls = false;
  bool strict = false;  // a tool that can be called is strict
};

Wanted what_is_wanted(const ToolFields& tools, bool has_answer) {
  Wanted wanted;
  if (tools.tools == nullptr) return wanted;
  wanted.strict = std::any_of(tools.tools->begin(), tools.tools->end(), is_strict);
  wanted.only_calls = tools.choice == ToolChoice::kRequired || tools.choice == ToolChoice::kNamed;
  wanted.calls = wanted.only_calls || wanted.strict || has_answer || tools.allowed != nullptr;
  return wanted;
}

std::vector<CallableTool> callable_tools(const ToolFields& tools, bool exact) {
  std::vector<CallableTool> callable;
  for (const Json& tool : *tools.tools) {
    const auto& name = function_of(tool)["name"].get_ref<const std::string&>();
    if (tools.choice == ToolChoice::kNamed && name != tools.name) continue;
    callable.push_back({name, exact || is_strict(tool) ? schema_of(tool) : Json{{"type", "object"}}});
  }
  return callable;
}

// Replaces a format in which the calls cannot be constrained by JSON, or refuses the request.
Status choose_format(const std::vector<CallableTool>& tools, bool within_text, const ServingEngine& engine,
                     OutputParserOptions& parser) {
  const auto can_write = [&](const CallFormat& format) {
    const auto is_special = [&engine](TokenId token) { return engine.is_special(token); };
    if (!has_grammar(format, parser.token_of)) return false;
    if (within_text && !has_grammar_within_text(format, parser.token_of, is_special)) return false;
    return std::all_of(tools.begin(), tools.end(), [&](const CallableTool& tool) {
      return can_write_arguments(format, parser.token_of, tool.arguments);
    });
  };
  if (parser.calls == nullptr || !can_write(*parser.calls)) {
    if (within_text) {
      return Failure{
          ErrorKind::kUnsupported,
          cat("strict tools and allowed_tools with mode \"auto\" are not supported, only \"required\" or a "
              "named tool: calls within text cannot be constrained in this model's format (",
              parser.calls == nullptr ? "none" : parser.calls->name, ") with these schemas."),
          "tools"};
    }
    parser.calls = find_call_format("json");
  }
  for (const CallableTool& tool : tools) {
    if (can_name(*parser.calls, tool.name)) continue;
    return invalid_argument(
        cat("tools: the name '", tool.name.substr(0, 80),
            "' has characters that calls in this model's format (", parser.calls->name, ") cannot have."),
        "tools");
  }
  return {};
}

// The failure of the first schema that is refused, in terms of the request.
Failure refused_tool(const ServingEngine& engine, const ToolFields& tools, const Failure& otherwise,
                     const CompileOptions& compiling) {
  for (size_t i = 0; i < tools.given->size(); ++i) {
    const Json& tool = (*tools.given)[i];
    if (std::ranges::find(*tools.tools, tool) == tools.tools->end()) continue;
    const StructuredOutputs alone{.kind = Kind::kJsonSchema,
                                  .text = schema_of(tool).dump(),
                                  .field = cat("tools[", i, "].function.parameters")};
    const auto compiled = engine.compile(alone, compiling);
    if (!compiled.ok()) return {compiled.failure().kind, compiled.failure().message, "tools"};
  }
  return {otherwise.kind, otherwise.message, "tools"};
}

// Names the keywords of a schema that have no effect.
void note_ignored(GenerationSpec& spec, const StructuredOutputs& answer, const OutputConstraint& compiled) {
  for (const std::string& pointer : compiled.ignored())
    spec.ignored_params.push_back(cat(answer.field, pointer));
}

Status compile_language(GenerationSpec& spec, const ServingEngine& engine, StructuredOutputs language,
                        const std::optional<StructuredOutputs>& answer, const ToolFields& tools,
                        const CompileOptions& compiling) {
  // The answer alone first: what is wrong with it is then named by the request's own pointers.
  if (answer) {
    const auto alone = engine.compile(*answer, compiling);
    if (!alone.ok()) return alone.failure();
    note_ignored(spec, *answer, **alone);
  }
  auto compiled = engine.compile(language, compiling);
  if (!compiled.ok())
    return tools.tools == nullptr ? compiled.failure()
                                  : refused_tool(engine, tools, compiled.failure(), compiling);
  spec.sampling.structured_outputs = std::move(language);
  spec.constraint = std::move(*compiled);
  return {};
}

Status constrain(GenerationSpec& spec, const ServingEngine& engine,
                 const std::optional<StructuredOutputs>& answer, const ToolFields& tools,
                 const Wanted& wanted, OutputGrammarOptions options, const CompileOptions& compiling) {
  OutputParserOptions& parser = spec.reading->parser;
  StructuredOutputs language{.kind = Kind::kStructuralTag, .field = "tools"};
  options.calls = parser.calls;
  options.reasoning = parser.reasoning;
  options.token_of = parser.token_of;
  options.start = parser.start;
  options.parallel = spec.reading->parallel;
  if (wanted.calls) {
    options.any_text = !wanted.only_calls && !answer;
    // Calls without a marker are then taken as such at the beginning only.
    if (options.any_text && parser.calls->bare) parser.tools = nullptr;
    language.strict = std::all_of(tools.tools->begin(), tools.tools->end(), is_strict);
  }
  if (answer) {
    if (Status added = add_answer(*answer, options, language); !added.ok()) return added;
  }
  language.text = output_grammar(options).dump(-1, ' ', false, Json::error_handler_t::replace);
  return compile_language(spec, engine, std::move(language), answer, tools, compiling);
}

}  // namespace

Status constrain_answer(GenerationSpec& spec, const ServingEngine& engine, const StructuredOutputs& answer,
                        const CompileOptions& compiling) {
  spec.sampling.structured_outputs = answer;
  auto compiled = engine.compile(answer, compiling);
  if (!compiled.ok()) return compiled.failure();
  spec.constraint = std::move(*compiled);
  note_ignored(spec, answer, *spec.constraint);
  return {};
}

Status set_output_language(GenerationSpec& spec, const ServingEngine& engine, const DetectedFormat& formats,
                           const std::optional<StructuredOutputs>& answer, const ToolFields& tools,
                           const ReasoningFields& reasoning, std::string_view prompt,
                           const CompileOptions& compiling) {
  const Wanted wanted = what_is_wanted(tools, answer.has_value());
  if (wanted.only_calls && answer) {
    return invalid_argument(
        cat(answer->field, " and tool_choice exclude each other: the output has to be a tool call."),
        answer->field.substr(0, answer->field.find('.')));
  }
  spec.reading = output_reading(formats, tools, reasoning, engine);
  if (!spec.reading && wanted.calls) {
    spec.reading.emplace();
    spec.reading->parallel = tools.parallel;
    spec.reading->parser.tools = std::make_shared<const ToolSet>(*tools.tools);
    spec.reading->parser.token_of = marker_finder(engine);
  }
  if (!spec.reading) return answer ? constrain_answer(spec, engine, *answer, compiling) : Status();
  OutputParserOptions& parser = spec.reading->parser;
  OutputGrammarOptions options;
  if (wanted.calls) {
    options.tools = callable_tools(tools, wanted.only_calls);
    if (Status chosen = choose_format(options.tools, !wanted.only_calls && !answer, engine, parser);
        !chosen.ok())
      return chosen;
  }
  parser.start = output_start(parser.calls, parser.reasoning, prompt);
  spec.markers = std::make_shared<const std::vector<TokenId>>(OutputParser(parser).marker_tokens());
  if (!answer && !wanted.calls) return {};
  const bool harmony = parser.calls != nullptr && parser.calls->machine == CallMachine::kHarmony;
  options.reasoning_is_over = reasoning_is_over(parser.reasoning, prompt);
  const bool may_reason = parser.reasoning != nullptr && !options.reasoning_is_over;
  if (!wanted.calls && !may_reason && !harmony) return constrain_answer(spec, engine, *answer, compiling);
  return constrain(spec, engine, answer, tools, wanted, std::move(options), compiling);
}

}  // namespace quire
