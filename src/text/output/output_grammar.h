// The language of an output with reasoning, tool calls and a constrained answer, as one structural tag. The
// whole output is one language, so that a constraint on the answer or on calls neither applies to the
// reasoning nor depends on finding its end.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/chat/request_json.h"
#include "text/output/call_text.h"
#include "text/output/output_parser.h"

namespace quire {

// A tool that can be called.
struct CallableTool {
  std::string name;
  Json arguments;  // their schema
};

struct OutputGrammarOptions {
  const CallFormat* calls = nullptr;           // null = no calls
  const ReasoningFormat* reasoning = nullptr;  // null = no reasoning
  FindMarker token_of;
  OutputStart start = OutputStart::kText;
  bool reasoning_is_over = false;   // the prompt has a complete block of reasoning at its end
  std::vector<CallableTool> tools;  // of `calls`, at least one
  bool parallel = true;             // several calls
  // The alternative to calls: a format of structural tags, or any text, in which calls may occur.
  std::optional<Json> answer;
  bool answer_is_json = false;  // white space may precede it
  bool any_text = false;
};

// Whether the prompt ends with the end of reasoning.
bool reasoning_is_over(const ReasoningFormat* reasoning, std::string_view prompt);

// Whether constrained calls of the format can be written.
bool has_grammar(const CallFormat& calls, const FindMarker& token_of);
// Whether calls of the format can have arguments that are valid for the schema.
bool can_write_arguments(const CallFormat& calls, const FindMarker& token_of, const Json& schema);
// Whether they can be within other text. is_special: tokens that no text matches.
bool has_grammar_within_text(const CallFormat& calls, const FindMarker& token_of,
                             const std::function<bool(TokenId)>& is_special);

// The structural tag. has_grammar() must be true for the format of calls, and can_write_arguments() for all
// tools.
Json output_grammar(const OutputGrammarOptions& options);

}  // namespace quire
