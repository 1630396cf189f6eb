// The one way from a client's chat request to the text of a prompt.
#pragma once

#include <string>

#include "base/error.h"
#include "text/chat/chat_templates.h"
#include "text/chat/messages.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {

// Renders a request with its own template, or with one of the model's (template_name()). The template sees
// the named special tokens of the tokenizer (may be null), and the time QUIRE_NOW ("2026-01-15T12:00:00") if
// that is set, otherwise the machine's. Fails with the message of the template if it rejects the
// conversation. Throws Error if QUIRE_NOW is not a time.
Result<std::string> render_chat(const ChatTemplates& templates, const Tokenizer* tokenizer,
                                ChatRequest request);

}  // namespace quire
