// The one way from a client's chat request to the text of a prompt.
#pragma once

#include <string>

#include "base/error.h"
#include "text/chat/chat_template.h"
#include "text/chat/messages.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {

// Renders a request with its own template, or with the model's (null = it has none). The template sees the
// named special tokens of the tokenizer (may be null), and the time QUIRE_NOW ("2026-01-15T12:00:00") if that
// is set, otherwise the machine's. Fails with the message of the template if it rejects the conversation.
// Throws Error if QUIRE_NOW is not a time.
Result<std::string> render_chat(const ChatTemplate* model_template, const Tokenizer* tokenizer,
                                ChatRequest request);

}  // namespace quire
