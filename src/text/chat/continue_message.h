// transformers' continue_final_message: the prompt is cut where the last message ends, so that the model goes
// on writing it. A tag is put at the end of that message, the template is rendered, and the text is cut at
// the tag.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "text/chat/chat_template.h"

namespace quire {

// The messages that the template is given: those of the request, or a copy that had to be changed.
struct PreparedMessages {
  std::optional<nlohmann::ordered_json> changed;
  std::string final_text;  // the text that is continued, without the tag

  const nlohmann::ordered_json& messages(const ChatRenderOptions& options) const {
    return changed ? *changed : options.messages;
  }
};

// Fails when the options ask to continue a message that has nothing to continue.
Status prepare_messages(const ChatRenderOptions& options, const std::string& source, PreparedMessages& out);

// The rendered text up to the tag. Fails when the template dropped the message.
Result<std::string> cut_at_tag(std::string rendered, const PreparedMessages& prepared);

}  // namespace quire
