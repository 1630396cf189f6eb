#include "text/chat/tools_as_text.h"

#include <string_view>

#include "base/strings.h"

namespace quire {
namespace {

std::string print(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Appends a paragraph to the content, which is a string or a list of parts.
void append_text(Json& message, const std::string& text) {
  Json& content = message["content"];
  if (content.is_array()) {
    content.push_back({{"type", "text"}, {"text", text}});
  } else if (content.is_string() && !content.get_ref<const std::string&>().empty()) {
    content = cat(content.get<std::string>(), "\n\n", text);
  } else {
    content = text;
  }
}

// {"name": ..., "arguments": {...}} of a call in a message.
std::string call_text(const Json& call) {
  const Json& function = call["function"];
  const auto arguments = function.find("arguments");
  std::string text = "{}";
  if (arguments != function.end())
    text = arguments->is_string() ? arguments->get<std::string>() : print(*arguments);
  return cat("{\"name\": ", print(function["name"]), ", \"arguments\": ", text, "}");
}

void write_calls(Json& message) {
  if (const auto calls = message.find("tool_calls"); calls != message.end()) {
    std::string text;
    for (const Json& call : *calls) text += cat(text.empty() ? "" : "\n", call_text(call));
    message.erase("tool_calls");
    append_text(message, text);
  }
  if (message["role"] != "tool") return;
  message["role"] = "user";
  const auto name = message.find("name");
  const std::string title =
      name != message.end() && name->is_string() ? cat("Result of ", name->get<std::string>()) : "Result";
  if (message["content"].is_string()) {
    message["content"] = cat(title, ":\n", message["content"].get<std::string>());
  } else {
    message["content"].insert(message["content"].begin(), Json{{"type", "text"}, {"text", title + ":"}});
  }
}

}  // namespace

void write_tools_as_text(Json& messages, const Json& tools, const std::string& how_to_call, bool calls_too) {
  std::string text = "You can call these tools:\n";
  for (const Json& tool : tools) {
    const auto function = tool.find("function");
    text += cat(print(function == tool.end() ? tool : *function), "\n");
  }
  text += cat("\n", how_to_call);
  if (calls_too) {
    for (Json& message : messages) write_calls(message);
  }
  const bool has_system =
      !messages.empty() && (messages[0]["role"] == "system" || messages[0]["role"] == "developer");
  if (has_system) {
    append_text(messages[0], text);
  } else {
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", text}});
  }
}

}  // namespace quire
