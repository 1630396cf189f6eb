// Tools and their calls as text, for templates that know neither.
#pragma once

#include <string>

#include "text/chat/request_json.h"

namespace quire {

// Adds the tools to the system message, which is created if there is none. `how_to_call` describes how the
// model writes a call. `messages` are those that read_chat_request() has read.
void write_tools_as_text(Json& messages, const Json& tools, const std::string& how_to_call);
// Same, in the user's first message, for templates that refuse system messages. False, without a change, if
// the messages begin with another one.
bool write_tools_for_user(Json& messages, const Json& tools, const std::string& how_to_call);

// Calls of the assistant become text of its messages, and their results a message of the user.
void write_calls_as_text(Json& messages);

}  // namespace quire
