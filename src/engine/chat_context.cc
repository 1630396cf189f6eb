#include "engine/chat_context.h"

#include <cstdlib>

#include "base/strings.h"

namespace quire {

void add_chat_context(ChatRenderOptions& options, const Tokenizer* tokenizer) {
  if (tokenizer != nullptr) {
    if (!options.bos_token && !tokenizer->bos_token().empty()) options.bos_token = tokenizer->bos_token();
    if (!options.eos_token && !tokenizer->eos_token().empty()) options.eos_token = tokenizer->eos_token();
  }
  if (const char* text = std::getenv("QUIRE_NOW")) {
    auto now = parse_now(text);
    if (!now.ok()) throw Error(cat("QUIRE_NOW: ", now.failure().message));
    options.now = *now;
  }
}

}  // namespace quire
