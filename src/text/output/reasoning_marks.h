// The markers around reasoning, for limits on its length.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "contract/ids.h"
#include "text/output/call_text.h"
#include "text/output/output_parser.h"

namespace quire {

// The text that ends reasoning: the first one with a token of its own, otherwise the first one. "" if the
// format has none, or if there is no format.
std::string_view reasoning_end(const ReasoningFormat* reasoning, const FindMarker& token_of);

// The beginning of an output after a prompt in tokens. Unlike output_start() for a rendered chat, the
// reasoning may have been opened anywhere in it, if its markers are tokens.
// decode: the text of tokens, with special ones.
OutputStart output_start(const CallFormat* calls, const ReasoningFormat* reasoning,
                         std::span<const TokenId> prompt, const FindMarker& token_of,
                         const std::function<std::string(std::span<const TokenId>)>& decode);
// Whether the prompt ends with the end of reasoning.
bool reasoning_is_over(const ReasoningFormat* reasoning, std::span<const TokenId> prompt,
                       const std::function<std::string(std::span<const TokenId>)>& decode);

}  // namespace quire
