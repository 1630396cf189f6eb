#include "server/openai/tool_fields.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "text/output/call_machine.h"

namespace quire {
namespace {

constexpr size_t kMaxTools = 1024;

// The text of a string field; nullopt if it is absent or something else.
std::optional<std::string_view> text_of(const Json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_string()) return std::nullopt;
  return std::string_view(at->get_ref<const std::string&>());
}

// The problem of a tool; "" if it has none. Otherwise `name` is the tool's name.
std::string tool_problem(const Json& tool, std::string& name) {
  constexpr const char* kForm =
      " must be an object {\"type\": \"function\", \"function\": {\"name\", \"description\", "
      "\"parameters\"}}.";
  if (!tool.is_object()) return kForm;
  const auto type = tool.find("type");
  if (type != tool.end() && !type->is_null() && *type != "function")
    return cat(".type must be \"function\", not ", type->dump().substr(0, 80), ".");
  const auto function = tool.find("function");
  if (function == tool.end() || !function->is_object()) return kForm;
  const auto text = text_of(*function, "name");
  if (!text) return ".function.name must be a string.";
  if (text->empty() || text->size() > kMaxToolName)
    return cat(".function.name has ", text->size(), " bytes; it must have 1 to ", kMaxToolName, ".");
  const auto wrong = [&](const char* field, bool (Json::*is)() const noexcept) {
    const auto at = function->find(field);
    return at != function->end() && !at->is_null() && !((*at).*is)();
  };
  if (wrong("description", &Json::is_string)) return ".function.description must be a string.";
  if (wrong("parameters", &Json::is_object)) return ".function.parameters must be a JSON Schema, an object.";
  if (wrong("strict", &Json::is_boolean)) return ".function.strict must be true or false.";
  name = *text;
  return {};
}

using ToolNames = std::set<std::string, std::less<>>;

ToolNames check_tools(FieldReader& fields, const Json& tools) {
  ToolNames names;
  if (tools.size() > kMaxTools) {
    fields.fail(cat("tools has ", tools.size(), " tools; the maximum is ", kMaxTools, "."), "tools");
    return names;
  }
  for (size_t i = 0; i < tools.size(); ++i) {
    std::string name;
    std::string problem = tool_problem(tools[i], name);
    if (problem.empty() && !names.insert(name).second)
      problem = cat(".function.name is '", name, "', as that of another tool.");
    if (problem.empty()) continue;
    fields.fail(cat("tools[", i, "]", problem), "tools");
    break;
  }
  return names;
}

// {"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}, also without the inner object. Returns what
// is wrong with it.
std::string choose_among(const Json& choice, const Json& given, ToolFields& result) {
  const auto inner = choice.find("allowed_tools");
  const Json& object = inner == choice.end() ? choice : *inner;
  const auto tools = object.is_object() ? object.find("tools") : object.end();
  const auto mode = object.is_object() ? text_of(object, "mode") : std::nullopt;
  if (!mode || (*mode != "auto" && *mode != "required"))
    return "allowed_tools must have a mode, which is \"auto\" or \"required\".";
  if (tools == object.end() || !tools->is_array() || tools->empty())
    return "allowed_tools must have an array tools with at least one tool.";
  std::set<std::string, std::less<>> names;
  for (const Json& tool : *tools) {
    const auto function = tool.is_object() ? tool.find("function") : tool.end();
    const bool nested = function != tool.end() && function->is_object();
    const auto name = tool.is_object() ? text_of(nested ? *function : tool, "name") : std::nullopt;
    if (!name || text_of(tool, "type").value_or("function") != "function")
      return "the tools of allowed_tools must be {\"type\": \"function\", \"function\": {\"name\"}}.";
    names.emplace(*name);
  }
  Json allowed = Json::array();
  for (const Json& tool : given) {
    if (names.erase(tool["function"]["name"].get<std::string>()) > 0) allowed.push_back(tool);
  }
  if (!names.empty())
    return cat("allowed_tools names '", names.begin()->substr(0, 80), "', which is not in tools.");
  result.choice = *mode == "auto" ? ToolChoice::kAuto : ToolChoice::kRequired;
  result.allowed = std::make_shared<const Json>(std::move(allowed));
  return {};
}

void choose_tool(FieldReader& fields, const Json& choice, const ToolNames& names, ToolFields& result) {
  constexpr std::string_view kField = "tool_choice";
  if (choice == "none") {
    result.choice = ToolChoice::kNone;
  } else if (choice == "auto") {
    result.choice = names.empty() ? ToolChoice::kNone : ToolChoice::kAuto;
  } else if (choice == "required") {
    result.choice = ToolChoice::kRequired;
    if (names.empty()) fields.fail("tool_choice is \"required\", but there are no tools.", kField);
  } else if (choice.is_object() && text_of(choice, "type") == "allowed_tools") {
    const Json none = Json::array();
    const std::string problem = choose_among(choice, result.given == nullptr ? none : *result.given, result);
    if (!problem.empty()) fields.fail(cat("tool_choice: ", problem), kField);
  } else if (choice.is_object()) {
    const auto function = choice.find("function");
    const bool nested = function != choice.end() && function->is_object();
    const auto name = text_of(nested ? *function : choice, "name");
    if (text_of(choice, "type").value_or("function") != "function" || !name) {
      return fields.fail(
          "tool_choice must be {\"type\": \"function\", \"function\": {\"name\"}} to name a tool.", kField);
    }
    result.choice = ToolChoice::kNamed;
    result.name = *name;
    if (names.find(*name) == names.end())
      fields.fail(cat("tool_choice names '", name->substr(0, 80), "', which is not in tools."), kField);
  } else {
    fields.fail(
        cat("tool_choice must be \"none\", \"auto\", \"required\" or an object that names tools, not ",
            choice.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 80), "."),
        kField);
  }
}

// Turns the parts of a message that answers or has a function call into those of tool calls.
void translate_message(Json& message) {
  if (!message.is_object()) return;
  if (text_of(message, "role") == "function") {
    message["role"] = "tool";
    if (const auto name = message.find("name"); name != message.end() && name->is_string())
      message["tool_call_id"] = *name;
  }
  const auto call = message.find("function_call");
  if (call == message.end()) return;
  if (call->is_object()) {
    const Json id = call->contains("name") ? (*call)["name"] : Json("function");
    message["tool_calls"] = Json::array({{{"id", id}, {"type", "function"}, {"function", *call}}});
  }
  message.erase("function_call");
}

}  // namespace

Result<std::optional<Json>> without_old_forms(const Json& body) {
  const auto given = [&](const char* name) {
    const auto at = body.find(name);
    return at == body.end() || at->is_null() ? nullptr : &*at;
  };
  const Json* functions = given("functions");
  const Json* call = given("function_call");
  if (functions == nullptr && call == nullptr) return std::optional<Json>();
  for (const auto& [old, other] : {std::pair{functions, "tools"}, std::pair{call, "tool_choice"}}) {
    if (old != nullptr && given(other) != nullptr) {
      const char* name = old == functions ? "functions" : "function_call";
      return invalid_argument(cat(name, " and ", other, " exclude each other; ", name, " is the older form."),
                              name);
    }
  }
  if (functions != nullptr && !functions->is_array())
    return invalid_argument(cat("functions must be an array, not ", json_type_name(*functions), "."),
                            "functions");
  if (call != nullptr && !(call->is_object() && text_of(*call, "name")) && *call != "none" && *call != "auto")
    return invalid_argument("function_call must be \"none\", \"auto\" or an object with a name.",
                            "function_call");
  Json result = body;
  result.erase("functions");
  result.erase("function_call");
  if (functions != nullptr) {
    Json tools = Json::array();
    for (const Json& function : *functions) tools.push_back({{"type", "function"}, {"function", function}});
    result["tools"] = std::move(tools);
  }
  if (call != nullptr) {
    result["tool_choice"] = call->is_object() ? Json{{"type", "function"}, {"function", *call}} : *call;
  }
  if (const auto messages = result.find("messages"); messages != result.end() && messages->is_array()) {
    for (Json& message : *messages) translate_message(message);
  }
  return std::optional<Json>(std::move(result));
}

ToolFields read_tool_fields(FieldReader& fields) {
  ToolFields result;
  const Json* tools = fields.array("tools");
  const Json* choice = fields.any("tool_choice");
  result.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  ToolNames names;
  if (tools != nullptr) names = check_tools(fields, *tools);
  if (!fields.ok()) return result;
  result.given = tools;
  if (choice != nullptr) {
    choose_tool(fields, *choice, names, result);
  } else if (!names.empty()) {
    result.choice = ToolChoice::kAuto;
  }
  if (result.choice != ToolChoice::kNone)
    result.tools = result.allowed != nullptr ? result.allowed.get() : tools;
  return result;
}

ReasoningFields read_reasoning_fields(FieldReader& fields) {
  ReasoningFields result;
  result.show = fields.boolean("include_reasoning").value_or(true);
  const Json* effort = fields.any("reasoning_effort");
  result.effort_is_none = effort != nullptr && *effort == "none";
  const auto format = fields.text("reasoning_format");  // llama.cpp
  if (!format) return result;
  result.separate = *format != "none";
  if (*format != "none" && *format != "auto" && *format != "deepseek") {
    fields.fail(
        cat("reasoning_format must be 'auto', 'deepseek' or 'none', not '", format->substr(0, 80), "'."),
        "reasoning_format");
  }
  return result;
}

FindMarker marker_finder(const ServingEngine& engine) {
  return [&engine](std::string_view text) { return engine.marker_token(text); };
}

std::optional<OutputReading> output_reading(const DetectedFormat& formats, const ToolFields& tools,
                                            const ReasoningFields& reasoning, const ServingEngine& engine) {
  OutputReading reading;
  const bool channels = formats.calls != nullptr && formats.calls->machine == CallMachine::kHarmony;
  if (tools.choice != ToolChoice::kNone || channels) reading.parser.calls = formats.calls;
  // Channels are read together: reasoning is one of them.
  if (reasoning.separate || channels) reading.parser.reasoning = formats.reasoning;
  if (reading.parser.calls == nullptr && reading.parser.reasoning == nullptr) return std::nullopt;
  reading.calls_are_text = tools.choice == ToolChoice::kNone;
  reading.parallel = tools.parallel;
  reading.show_reasoning = reasoning.show;
  if (tools.tools != nullptr) reading.parser.tools = std::make_shared<const ToolSet>(*tools.tools);
  reading.parser.token_of = marker_finder(engine);
  return reading;
}

}  // namespace quire
