#include "text/chat/tools_as_text.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

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
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return;
  std::string text;
  for (const Json& call : *calls) text += cat(text.empty() ? "" : "\n", call_text(call));
  message.erase("tool_calls");
  append_text(message, text);
}

// The text of a result, with the name of its tool if the message has it.
std::string result_text(const Json& message) {
  const auto name = message.find("name");
  std::string text = name != message.end() && name->is_string()
                         ? cat("Result of ", name->get<std::string>(), ":")
                         : "Result:";
  const auto content = message.find("content");
  if (content == message.end()) return text;
  if (content->is_string()) return cat(text, "\n", content->get<std::string>());
  for (const Json& part : *content)
    if (part.contains("text") && part["text"].is_string()) text += cat("\n", part["text"].get<std::string>());
  return text;
}

std::string tools_text(const Json& tools, const std::string& how_to_call) {
  std::string text = "You can call these tools:\n";
  for (const Json& tool : tools) {
    const auto function = tool.find("function");
    text += cat(print(function == tool.end() ? tool : *function), "\n");
  }
  return cat(text, "\n", how_to_call);
}

bool has_role(const Json& messages, std::initializer_list<std::string_view> roles) {
  if (messages.empty()) return false;
  const auto& role = messages[0]["role"].get_ref<const std::string&>();
  return std::find(roles.begin(), roles.end(), role) != roles.end();
}

}  // namespace

void write_tools_as_text(Json& messages, const Json& tools, const std::string& how_to_call) {
  const std::string text = tools_text(tools, how_to_call);
  if (has_role(messages, {"system", "developer"})) {
    append_text(messages[0], text);
  } else {
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", text}});
  }
}

bool write_tools_for_user(Json& messages, const Json& tools, const std::string& how_to_call) {
  if (!has_role(messages, {"user"})) return false;
  const std::string text = tools_text(tools, how_to_call);
  Json& content = messages[0]["content"];
  if (content.is_string()) {
    content = cat(text, "\n\n", content.get<std::string>());
  } else {
    content.insert(content.begin(), Json{{"type", "text"}, {"text", text}});
  }
  return true;
}

void write_calls_as_text(Json& messages) {
  Json written = Json::array();
  bool after_result = false;
  for (Json& message : messages) {
    const bool is_result = message["role"] == "tool";
    if (!is_result) {
      write_calls(message);
      written.push_back(std::move(message));
    } else if (after_result) {
      // Many templates refuse two messages of the user in a row.
      append_text(written.back(), result_text(message));
    } else {
      written.push_back({{"role", "user"}, {"content", result_text(message)}});
    }
    after_result = is_result;
  }
  messages = std::move(written);
}

}  // namespace quire
