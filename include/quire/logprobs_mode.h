// The value that an engine reports as the log-probability of a token.
#pragma once

#include <cstdint>

namespace quire {

// Raw values are the model's; processed ones are those that the token is drawn from: after allowed ids, bias,
// penalties, temperature and truncation. Excluded tokens are -infinity there. Nothing is processed for tokens
// of prompts, and beam searches always report kRawLogprobs.
enum class LogprobsMode : uint8_t {
  kRawLogprobs,
  kRawLogits,
  kProcessedLogprobs,
  kProcessedLogits,
};

constexpr bool is_processed(LogprobsMode mode) {
  return mode == LogprobsMode::kProcessedLogprobs || mode == LogprobsMode::kProcessedLogits;
}

constexpr bool is_logits(LogprobsMode mode) {
  return mode == LogprobsMode::kRawLogits || mode == LogprobsMode::kProcessedLogits;
}

}  // namespace quire
