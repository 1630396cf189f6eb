// transformers' continue_final_message: the prompt ends at the end of the last message, so that the model
// continues it. A tag is appended to that message, the template is rendered, and the text is truncated at the
// tag.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "text/chat/chat_template.h"

namespace quire {

// The messages passed to the template: those of the request, or a modified copy.
struct PreparedMessages {
  std::optional<Json> changed;
  std::string final_text;  // the text to continue, without the tag

  const Json& messages(const ChatRenderOptions& options) const {
    return changed ? *changed : options.messages;
  }
};

// Fails if the options request to continue a message that has no text.
Status prepare_messages(const ChatRenderOptions& options, const std::string& source, PreparedMessages& out);

// Returns the rendered text up to the tag. Fails if the template dropped the message.
Result<std::string> cut_at_tag(std::string rendered, const PreparedMessages& prepared);

}  // namespace quire
