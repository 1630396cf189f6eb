// Files of `/save` and `/load`.
#pragma once

#include <string>
#include <vector>

#include "quire/llm.h"

namespace quire::cli {

// A conversation with a model that has a chat template, or a text that a model without one continues.
struct SavedConversation {
  std::vector<ChatMessage> messages;
  std::string text;
};

inline constexpr size_t kMaxConversationBytes = size_t{64} << 20;

// Writes {"messages": [{"role", "content"}, ...]}, which `quire render` and --prompts-file read too, or
// {"prompt": TEXT} if there are no messages. Replaces a file that is such a conversation. Throws Error with
// the path if the file is another one or cannot be written; the old one then remains.
void save_conversation(const std::string& path, const SavedConversation& conversation);

// Throws Error with the path if the file cannot be read, is larger than kMaxConversationBytes, or has
// messages with anything but a role and a text.
SavedConversation load_conversation(const std::string& path);

}  // namespace quire::cli
