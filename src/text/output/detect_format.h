// Which formats of calls and reasoning belong to a chat template.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "text/chat/chat_template.h"
#include "text/output/formats.h"

namespace quire {

enum class FormatMethod : uint8_t {
  kNone,
  kRendered,  // the template renders a call, or reasoning, and the row's parser returns it
  kLiteral,   // the template contains texts of the format
  kGeneric,   // none of these; calls are looked for as JSON
};

struct DetectedFormat {
  const CallFormat* calls = nullptr;           // null if the template does not use tools
  const ReasoningFormat* reasoning = nullptr;  // null if there is none
  FormatMethod calls_method = FormatMethod::kNone;
  FormatMethod reasoning_method = FormatMethod::kNone;
};

// Renders conversations with calls and reasoning and parses them back; where the template does not show them,
// looks at its source. `special_tokens` are variables of the template. Takes some milliseconds.
DetectedFormat detect_format(const ChatTemplate& chat_template,
                             const std::map<std::string, std::string>& special_tokens);

std::string_view method_name(FormatMethod method);

}  // namespace quire
