// Reading of a client's messages. Every front end (HTTP, JSON lines, C++, Python, `quire render`) passes the
// same JSON object, so that they all accept the same forms and give the same prompt.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/yield_point.h"
#include "text/chat/request_json.h"

namespace quire {

// How the content of a message is passed to the template, with vLLM's names.
enum class ContentFormat {
  kAuto,    // in the form that the template reads (template_forms.h)
  kString,  // as one string; the texts of parts are joined by line breaks
  kOpenAi,  // as a list of parts
};

// A client's input of a chat template.
struct ChatRequest {
  Json messages = Json::array();
  Json tools;                                         // null = no tools
  Json documents;                                     // null = no documents
  Json kwargs = Json::object();                       // more variables of the template
  std::string chat_template;                          // empty = the model's
  std::map<std::string, std::string> special_tokens;  // instead of the tokenizer's of the same names
  ContentFormat content_format = ContentFormat::kAuto;
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  // How the model calls tools, for templates that ignore them: the tools are then added to the system message
  // (tools_as_text.h). Empty: such a template does not show them.
  std::string how_to_call;
};

// The fields of the JSON object that read_chat_request() reads.
inline constexpr std::array<std::string_view, 9> kChatFields = {"messages",
                                                                "tools",
                                                                "tool_choice",
                                                                "documents",
                                                                "chat_template_kwargs",
                                                                "reasoning_effort",
                                                                "chat_template",
                                                                "add_generation_prompt",
                                                                "continue_final_message"};
// Those that a template can print, in which integers keep all their digits.
inline constexpr std::array<std::string_view, 4> kPrintedChatFields = {"messages", "tools", "documents",
                                                                       "chat_template_kwargs"};

// Whether parts of other types than text, such as images, are passed on to the template. A model that reads
// text only would not see them.
enum class MediaParts { kRefuse, kKeep };

// Checks and normalizes: fields that are null are left out, as transformers leaves them out; texts in a list
// of parts become {"type": "text", "text": ...}; the text of a call's arguments must be a JSON object; the
// reasoning of a message is available under each of the names that templates use. Fails with the place in
// the messages. Throws Cancelled soon after `yield_point` is cancelled.
Result<ChatRequest> read_chat_request(const Json& object, MediaParts media = MediaParts::kRefuse,
                                      const YieldPoint& yield_point = {});

}  // namespace quire
