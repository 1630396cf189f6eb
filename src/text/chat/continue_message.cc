#include "text/chat/continue_message.h"

#include "text/chat/jinja/unicode_text.h"

namespace quire {
namespace {

constexpr std::string_view kTag = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kBareTag = kTag.substr(0, kTag.size() - 1);

Failure bad(std::string message) {
  return invalid_argument(std::move(message), "messages");
}

// Appends the tag to the last text of the final message.
Status tag_content(Json& content, std::string& final_text) {
  if (content.is_string()) {
    final_text = content.get<std::string>();
    content = final_text + std::string(kTag);
    return {};
  }
  if (!content.is_array())
    return bad("continue_final_message is set but the content of the final message is not text");
  for (auto part = content.rbegin(); part != content.rend(); ++part) {
    if (!part->is_object() || !part->contains("text")) continue;
    if (!(*part)["text"].is_string())
      return bad("continue_final_message is set but the last text part is not text");
    final_text = (*part)["text"].get<std::string>();
    (*part)["text"] = final_text + std::string(kTag);
    return {};
  }
  return bad(
      "continue_final_message is set but we could not find any text to continue in the final message!");
}

}  // namespace

Status prepare_messages(const ChatRenderOptions& options, const std::string& source, PreparedMessages& out) {
  if (!options.continue_final_message) return {};
  if (options.messages.empty()) return bad("continue_final_message is set but the conversation is empty!");
  out.changed = options.messages;
  Json& last = out.changed->back();
  if (!last.is_object() || !last.contains("content") || last["content"].is_null()) {
    return bad("continue_final_message is set but the final message has no \"content\" to continue!");
  }
  if (source.find("content") == std::string::npos) {
    return bad(
        "continue_final_message is set to \"content\" but this is not an accepted field in the "
        "chat_template");
  }
  return tag_content(last["content"], out.final_text);
}

Result<std::string> cut_at_tag(std::string rendered, const PreparedMessages& prepared) {
  const auto wanted = jinja::strip(prepared.final_text, nullptr, true, true);
  const size_t tag = rendered.rfind(kBareTag);
  if (tag == std::string::npos || jinja::find_text(rendered, wanted, 0) == std::string::npos) {
    return bad(
        "continue_final_message is set but the final message does not appear in the chat after applying the "
        "chat "
        "template! This can happen if the chat template deletes portions of the final message.");
  }
  const bool exact = rendered.compare(tag, kTag.size(), kTag) == 0;
  rendered.resize(tag);
  // The tag ends with a space. If it is missing, the template trims the message, so the prompt is trimmed,
  // too.
  if (!exact) rendered.resize(jinja::strip(rendered, nullptr, false, true).size());
  return rendered;
}

}  // namespace quire
