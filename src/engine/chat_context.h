// What every chat rendering takes from the model and its surroundings, whichever door the messages came
// through.
#pragma once

#include "text/chat/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {

// Sets the tokenizer's bos and eos tokens where `options` has none (tokenizer may be null), and the clock:
// QUIRE_NOW
// ("2026-01-15T12:00:00") where it is set, else this machine's. Throws Error for a QUIRE_NOW that is no time.
void add_chat_context(ChatRenderOptions& options, const Tokenizer* tokenizer);

}  // namespace quire
