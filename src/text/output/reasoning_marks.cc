#include "text/output/reasoning_marks.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "text/output/output_grammar.h"

namespace quire {
namespace {

using R = MarkerRole;

// Markers are shorter than this many tokens.
constexpr size_t kTokensOfMarker = 32;

std::vector<TokenId> tokens_of(const ReasoningFormat& reasoning, R role, const FindMarker& token_of) {
  std::vector<TokenId> tokens;
  for (const Marker& marker : reasoning.markers) {
    if (marker.role != role || marker.text.empty()) continue;
    if (const auto token = token_of(marker.text)) tokens.push_back(*token);
  }
  return tokens;
}

}  // namespace

std::string_view reasoning_end(const ReasoningFormat* reasoning, const FindMarker& token_of) {
  if (reasoning == nullptr) return {};
  if (reasoning->name == "harmony") return "<|end|>";
  std::string_view first;
  for (const Marker& marker : reasoning->markers) {
    if (marker.role != R::kReasoningEnd || marker.text.empty()) continue;
    if (token_of(marker.text)) return marker.text;
    if (first.empty()) first = marker.text;
  }
  return first;
}

OutputStart output_start(const CallFormat* calls, const ReasoningFormat* reasoning,
                         std::span<const TokenId> prompt, const FindMarker& token_of,
                         const std::function<std::string(std::span<const TokenId>)>& decode) {
  if (reasoning == nullptr) return OutputStart::kText;
  const std::vector<TokenId> begins = tokens_of(*reasoning, R::kReasoningBegin, token_of);
  if (begins.empty()) {
    const size_t count = std::min(prompt.size(), kTokensOfMarker);
    return output_start(calls, reasoning, decode(prompt.last(count)));
  }
  const std::vector<TokenId> ends = tokens_of(*reasoning, R::kReasoningEnd, token_of);
  for (size_t i = prompt.size(); i-- > 0;) {
    if (std::ranges::find(begins, prompt[i]) != begins.end()) return OutputStart::kReasoning;
    if (std::ranges::find(ends, prompt[i]) != ends.end()) return OutputStart::kText;
  }
  return OutputStart::kText;
}

bool reasoning_is_over(const ReasoningFormat* reasoning, std::span<const TokenId> prompt,
                       const std::function<std::string(std::span<const TokenId>)>& decode) {
  if (reasoning == nullptr) return false;
  return reasoning_is_over(reasoning, decode(prompt.last(std::min(prompt.size(), kTokensOfMarker))));
}

}  // namespace quire
