// The template variables that every chat rendering takes from the model and the environment.
#pragma once

#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {

// Sets the bos and eos tokens of the tokenizer (may be null) if `options` has none, and the clock: QUIRE_NOW
// ("2026-01-15T12:00:00") if it is set, otherwise the machine's. Throws Error if QUIRE_NOW is not a time.
void add_chat_context(ChatRenderOptions& options, const Tokenizer* tokenizer);

}  // namespace quire
