// Tools and their calls as text, for templates that know neither.
#pragma once

#include <string>

#include "text/chat/request_json.h"

namespace quire {

// Adds the tools to the system message, which is created if there is none. `how_to_call` describes how
// the model writes a call. calls_too: calls of the assistant become text of its messages, and results
// messages of the user. `messages` are those that read_chat_request() has read.
void write_tools_as_text(Json& messages, const Json& tools, const std::string& how_to_call, bool calls_too);

}  // namespace quire
