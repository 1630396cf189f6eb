#include "text/chat/messages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/strings.h"

namespace quire {
namespace {

constexpr size_t kMaxMessages = 16384;

// Template variables that have a field of their own.
constexpr std::array<std::string_view, 7> kReservedVariables = {
    "messages",      "tools",   "documents", "add_generation_prompt", "continue_final_message",
    "chat_template", "tokenize"};

// The names under which templates look for the reasoning of a message.
constexpr std::array<const char*, 3> kReasoningFields = {"reasoning_content", "thinking", "reasoning"};

Failure wrong(size_t i, std::string_view what) {
  return invalid_argument(cat("messages[", i, "]", what, "."), "messages");
}

// The fields of the object, with the first failure.
class ChatFields {
 public:
  explicit ChatFields(const Json& object) : object_(object) {}

  // Null if the field is absent or null.
  const Json* any(const char* name) const {
    const auto at = object_.find(name);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }
  const Json* array(const char* name) { return checked(name, any(name), &Json::is_array, "an array"); }
  const Json* object(const char* name) { return checked(name, any(name), &Json::is_object, "an object"); }
  std::string text(const char* name) {
    const Json* value = checked(name, any(name), &Json::is_string, "a string");
    return value == nullptr ? std::string() : value->get<std::string>();
  }
  bool boolean(const char* name, bool otherwise) {
    const Json* value = checked(name, any(name), &Json::is_boolean, "true or false");
    return value == nullptr ? otherwise : value->get<bool>();
  }
  void fail(Failure failure) {
    if (!failure_) failure_ = std::move(failure);
  }
  const std::optional<Failure>& failure() const { return failure_; }

 private:
  const Json* checked(const char* name, const Json* value, bool (Json::*is)() const noexcept,
                      std::string_view expected) {
    if (value == nullptr || (value->*is)()) return value;
    fail(invalid_argument(cat(name, " must be ", expected, ", not ", json_type_name(*value), "."), name));
    return nullptr;
  }

  const Json& object_;
  std::optional<Failure> failure_;
};

Json text_part(Json text) {
  return {{"type", "text"}, {"text", std::move(text)}};
}

// One part of a message's content. Texts become parts of type text; what else a text part has, such as
// cache_control, stays.
Result<Json> read_part(const Json& part, size_t i, size_t p, MediaParts media) {
  if (part.is_string()) return text_part(part);
  const std::string place = cat(".content[", p, "]");
  const auto type_at = part.is_object() ? part.find("type") : part.end();
  if (!part.is_object() || type_at == part.end() || !type_at->is_string())
    return wrong(i, place + " must be an object with a type");
  const auto& type = type_at->get_ref<const std::string&>();
  // A refusal is text of the assistant.
  const char* key = type == "refusal" ? "refusal" : "text";
  if (type == "text" || type == "refusal" || type == "input_text" || type == "output_text") {
    const auto text = part.find(key);
    if (text == part.end() || !text->is_string()) return wrong(i, cat(place, ".", key, " must be a string"));
    return type == "text" ? part : text_part(*text);
  }
  if (media == MediaParts::kKeep || type == "thinking") return part;
  return Failure{ErrorKind::kUnsupported,
                 cat("messages[", i, "]", place, ": parts of type '", type.substr(0, 80),
                     "' are not supported by this model; only text is."),
                 "messages"};
}

Result<Json> read_content(const Json& content, size_t i, MediaParts media) {
  if (content.is_string()) return content;
  if (!content.is_array())
    return wrong(i, cat(".content must be a string or an array of parts, not ", json_type_name(content)));
  Json parts = Json::array();
  for (size_t p = 0; p < content.size(); ++p) {
    auto part = read_part(content[p], i, p, media);
    if (!part.ok()) return part.failure();
    parts.push_back(std::move(part).value());
  }
  return parts;
}

// Clients send the arguments of a call as an object or as its JSON text.
Status check_tool_calls(Json& calls, size_t i, const YieldPoint& yield_point) {
  if (!calls.is_array()) return wrong(i, cat(".tool_calls must be an array, not ", json_type_name(calls)));
  for (Json& call : calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
      return wrong(i, ".tool_calls must be objects with a function");
    Json& function = call["function"];
    const auto name = function.find("name");
    if (name == function.end() || !name->is_string())
      return wrong(i, ".tool_calls: function.name must be a string");
    const auto arguments = function.find("arguments");
    if (arguments == function.end() || !arguments->is_string()) continue;
    const auto& text = arguments->get_ref<const std::string&>();
    if (text.empty()) {
      *arguments = Json::object();
      continue;
    }
    const auto parsed = parse_request_json(text, "function.arguments", yield_point);
    if (!parsed.ok()) return wrong(i, cat(".tool_calls: ", parsed.failure().message));
    if (!parsed->is_object())
      return wrong(i, cat(".tool_calls: function.arguments must be the text of an object, not of ",
                          json_type_name(*parsed)));
  }
  return {};
}

// transformers' order of the fields, which a template that prints the whole message shows.
Json with_reasoning_names(Json message) {
  for (const char* name : kReasoningFields) {
    const auto at = message.find(name);
    if (at == message.end()) continue;
    const Json reasoning = *at;
    Json named = Json::object();
    named["thinking"] = reasoning;
    for (const auto& item : message.items()) named[item.key()] = item.value();
    named["reasoning_content"] = reasoning;
    return named;
  }
  return message;
}

Result<Json> read_message(const Json& given, size_t i, MediaParts media, const YieldPoint& yield_point) {
  if (!given.is_object()) return wrong(i, cat(" must be an object, not ", json_type_name(given)));
  const auto role = given.find("role");
  if (role == given.end() || !role->is_string() || role->get_ref<const std::string&>().empty())
    return wrong(i, ".role must be a string");
  if (!given.contains("content") && *role != "assistant") return wrong(i, ".content is missing");
  Json message = Json::object();
  for (const auto& [key, value] : given.items()) {
    if (value.is_null()) continue;
    if (key == "content") {
      auto content = read_content(value, i, media);
      if (!content.ok()) return content.failure();
      message[key] = std::move(content).value();
    } else if (key == "tool_calls") {
      if (value.empty()) continue;
      message[key] = value;
      if (const Status s = check_tool_calls(message[key], i, yield_point); !s.ok()) return s.failure();
    } else {
      message[key] = value;
    }
  }
  return with_reasoning_names(std::move(message));
}

Status read_messages(const Json* messages, MediaParts media, const YieldPoint& yield_point, Json& out) {
  if (messages == nullptr || messages->empty())
    return invalid_argument("messages must be an array of at least one message.", "messages");
  if (messages->size() > kMaxMessages) {
    return invalid_argument(
        cat("messages has ", messages->size(), " messages; the maximum is ", kMaxMessages, "."), "messages");
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    auto message = read_message((*messages)[i], i, media, yield_point);
    if (!message.ok()) return message.failure();
    out.push_back(std::move(message).value());
  }
  return {};
}

void read_tools(ChatFields& fields, ChatRequest& request) {
  const Json* tools = fields.array("tools");
  // The templates of most models show the tools unless the model must not call any.
  const Json* choice = fields.any("tool_choice");
  const bool none = choice != nullptr && *choice == "none";
  if (tools != nullptr && !none) request.tools = *tools;
}

void read_kwargs(ChatFields& fields, ChatRequest& request) {
  if (const Json* kwargs = fields.object("chat_template_kwargs")) {
    for (const auto& item : kwargs->items()) {
      if (std::ranges::find(kReservedVariables, item.key()) != kReservedVariables.end()) {
        return fields.fail(invalid_argument(cat("chat_template_kwargs must not set '", item.key(), "'."),
                                            "chat_template_kwargs"));
      }
    }
    request.kwargs = *kwargs;
  }
  const std::string effort = fields.text("reasoning_effort");
  if (!effort.empty() && !request.kwargs.contains("reasoning_effort"))
    request.kwargs["reasoning_effort"] = effort;
  if (effort != "none") return;
  // The names under which templates switch reasoning off.
  for (const char* name : {"enable_thinking", "thinking"}) {
    if (!request.kwargs.contains(name)) request.kwargs[name] = false;
  }
}

}  // namespace

Result<ChatRequest> read_chat_request(const Json& object, MediaParts media, const YieldPoint& yield_point) {
  ChatFields fields(object);
  ChatRequest request;
  const Json* messages = fields.array("messages");
  if (fields.failure()) return *fields.failure();
  if (const Status s = read_messages(messages, media, yield_point, request.messages); !s.ok())
    return s.failure();
  read_tools(fields, request);
  read_kwargs(fields, request);
  if (const Json* documents = fields.array("documents")) request.documents = *documents;
  request.continue_final_message = fields.boolean("continue_final_message", false);
  request.add_generation_prompt = fields.boolean("add_generation_prompt", !request.continue_final_message);
  if (request.continue_final_message && request.add_generation_prompt) {
    fields.fail(invalid_argument("continue_final_message and add_generation_prompt exclude each other.",
                                 "continue_final_message"));
  }
  request.chat_template = fields.text("chat_template");
  if (fields.failure()) return *fields.failure();
  return request;
}

}  // namespace quire
