// Limits on reasoning: `thinking_token_budget`, and `reasoning_effort` if it is "none".
#pragma once

#include <optional>
#include <string_view>

#include "server/openai/generation_spec.h"

namespace quire {

// Adds the limit that the request asks for to the constraints of its prompts. To be called last. Within a
// completion, the request's constraint is then one on the answer after the reasoning, as in a chat.
// rendered: the prompt of a chat, where it is known as text. effort_is_none: reasoning is not wanted, so that
// it ends at once where it can, unless the request gives a budget.
Status limit_reasoning(GenerationSpec& spec, const ServingEngine& engine, const DetectedFormat& formats,
                       const CompileOptions& compiling,
                       std::optional<std::string_view> rendered = std::nullopt, bool effort_is_none = false);

}  // namespace quire
