// Reads the messages of a chat request.
#include <algorithm>
#include <array>

#include "base/strings.h"
#include "server/openai/common_fields.h"

namespace quire {
namespace {

constexpr size_t kMaxMessages = 16384;

// Template variables that the server sets.
constexpr std::array<std::string_view, 8> kReservedVariables = {
    "messages",      "tools",    "documents", "add_generation_prompt", "continue_final_message",
    "chat_template", "tokenize", "bos_token"};

Failure wrong(size_t i, std::string_view what) {
  return invalid_argument(cat("messages[", i, "]", what), "messages");
}

// The text of a content field: a string, null, or parts of type text, joined by line breaks because templates
// expect one string.
Result<std::string> read_content(const Json& content, size_t i) {
  if (content.is_null()) return std::string();
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array())
    return wrong(i, cat(".content must be a string or an array of parts, not ", json_type_name(content)));
  std::string text;
  for (size_t p = 0; p < content.size(); ++p) {
    const Json& part = content[p];
    if (p > 0) text += '\n';
    if (part.is_string()) {
      text += part.get_ref<const std::string&>();
      continue;
    }
    const std::string place = cat(".content[", p, "]");
    if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) {
      return wrong(i, place + " must be an object with a type");
    }
    const auto& type = part["type"].get_ref<const std::string&>();
    // A refusal is text of the assistant.
    const std::string_view key = type == "refusal" ? "refusal" : "text";
    if (type != "text" && type != "refusal" && type != "input_text" && type != "output_text") {
      return Failure{ErrorKind::kUnsupported,
                     cat("messages[", i, "]", place, ": parts of type '", type.substr(0, 80),
                         "' are not supported by this model; only text is"),
                     "messages"};
    }
    const auto value = part.find(std::string(key));
    if (value == part.end() || !value->is_string())
      return wrong(i, cat(place, ".", key, " must be a string"));
    text += value->get_ref<const std::string&>();
  }
  return text;
}

// Clients send the arguments of a call as JSON text. Templates expect the object and print it as JSON.
Status open_tool_calls(Json& calls, size_t i, const YieldPoint& yield_point) {
  if (!calls.is_array()) return wrong(i, cat(".tool_calls must be an array, not ", json_type_name(calls)));
  for (Json& call : calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) {
      return wrong(i, ".tool_calls must be objects with a function");
    }
    Json& function = call["function"];
    const auto name = function.find("name");
    if (name == function.end() || !name->is_string())
      return wrong(i, ".tool_calls: function.name must be a string");
    const auto arguments = function.find("arguments");
    if (arguments == function.end() || !arguments->is_string()) continue;
    if (arguments->get_ref<const std::string&>().empty()) {
      *arguments = Json::object();
      continue;
    }
    auto parsed = parse_json_object(arguments->get_ref<const std::string&>(), yield_point);
    if (!parsed.ok()) return wrong(i, cat(".tool_calls: function.arguments: ", parsed.failure().message));
    *arguments = std::move(parsed).value();
  }
  return {};
}

Result<Json> read_message(const Json& given, size_t i, const YieldPoint& yield_point) {
  if (!given.is_object()) return wrong(i, cat(" must be an object, not ", json_type_name(given)));
  const auto role = given.find("role");
  if (role == given.end() || !role->is_string() || role->get_ref<const std::string&>().empty()) {
    return wrong(i, ".role must be a string");
  }
  Json message = Json::object();
  bool has_content = false;
  for (const auto& item : given.items()) {
    if (item.key() == "content") {
      auto content = read_content(item.value(), i);
      if (!content.ok()) return content.failure();
      message["content"] = std::move(content).value();
      has_content = true;
    } else if (item.key() == "tool_calls") {
      if (item.value().is_null() || item.value().empty()) continue;
      message["tool_calls"] = item.value();
      if (const Status s = open_tool_calls(message["tool_calls"], i, yield_point); !s.ok())
        return s.failure();
    } else if (!item.value().is_null()) {
      message[item.key()] = item.value();
    }
  }
  if (!has_content) {
    if (*role != "assistant") return wrong(i, ".content is missing");
    message["content"] = "";
  }
  return message;
}

void read_tools(FieldReader& fields, ChatPrompt& prompt) {
  const Json* tools = fields.array("tools");
  if (tools != nullptr) {
    for (const Json& tool : *tools) {
      const bool has_function = tool.is_object() && tool.contains("function") && tool["function"].is_object();
      if (!has_function || !tool["function"].contains("name") || !tool["function"]["name"].is_string()) {
        return fields.fail("tools must be objects {\"type\": \"function\", \"function\": {\"name\", ...}}",
                           "tools");
      }
    }
  }
  // The templates of most models show the tools unless the model must not call any.
  const Json* choice = fields.any("tool_choice");
  const bool none = choice != nullptr && *choice == "none";
  if (tools != nullptr && !tools->empty() && !none) prompt.tools = *tools;
}

void read_kwargs(FieldReader& fields, ChatPrompt& prompt) {
  if (const Json* kwargs = fields.object("chat_template_kwargs")) {
    for (const auto& item : kwargs->items()) {
      if (std::find(kReservedVariables.begin(), kReservedVariables.end(), item.key()) !=
          kReservedVariables.end()) {
        return fields.fail(cat("chat_template_kwargs must not set '", item.key(), "'"),
                           "chat_template_kwargs");
      }
    }
    prompt.kwargs = *kwargs;
  }
  if (const auto effort = fields.text("reasoning_effort");
      effort && !prompt.kwargs.contains("reasoning_effort")) {
    prompt.kwargs["reasoning_effort"] = *effort;
  }
}

}  // namespace

Result<ChatPrompt> read_chat_prompt(FieldReader& fields, const ApiOptions& options,
                                    const YieldPoint& yield_point) {
  ChatPrompt prompt;
  const Json* messages = fields.array("messages");
  if (!fields.ok()) return fields.failure();
  if (messages == nullptr || messages->empty())
    return invalid_argument("messages must be an array of at least one message", "messages");
  if (messages->size() > kMaxMessages) {
    return invalid_argument(cat("messages has ", messages->size(), " messages; the limit is ", kMaxMessages),
                            "messages");
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    auto message = read_message((*messages)[i], i, yield_point);
    if (!message.ok()) return message.failure();
    prompt.messages.push_back(std::move(message).value());
  }
  read_tools(fields, prompt);
  read_kwargs(fields, prompt);
  if (const Json* documents = fields.array("documents")) prompt.documents = *documents;
  prompt.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  const auto generation = fields.boolean("add_generation_prompt");
  prompt.add_generation_prompt = generation.value_or(!prompt.continue_final_message);
  if (prompt.continue_final_message && prompt.add_generation_prompt) {
    fields.fail("continue_final_message and add_generation_prompt exclude each other",
                "continue_final_message");
  }
  if (const auto text = fields.text("chat_template"); text && !options.trust_request_chat_template) {
    fields.fail(
        "this server does not accept chat templates in requests (--trust-request-chat-template allows them)",
        "chat_template");
  } else if (text) {
    prompt.chat_template = *text;
  }
  if (!fields.ok()) return fields.failure();
  return prompt;
}

}  // namespace quire
