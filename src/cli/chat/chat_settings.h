// What `/set` changes during a conversation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quire/sampling_params.h"

namespace quire::cli {

struct ChatSettings {
  SamplingParams sampling;
  bool stats = true;      // a line after each answer
  std::string lora = {};  // an adapter; empty = the base model
};

// Sets the field `name` (top_p, also as top-p) to the value in `text`; "default" restores the one in
// `defaults`. Throws Error if there is no such field, or with the range of its values.
void set_chat_field(ChatSettings& settings, const ChatSettings& defaults, std::string_view name,
                    const std::string& text);

// All fields with their values, one per line.
std::string chat_fields_text(const ChatSettings& settings);

std::vector<std::string> chat_field_names();

}  // namespace quire::cli
