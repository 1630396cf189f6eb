// The outputs of a request while it runs: a stream of deltas, in order. Created on the engine thread and
// moved to the request's owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "contract/ids.h"
#include "contract/step_result.h"

namespace quire {

enum class FinishReason { kNone, kStop, kLength, kAbort, kError, kRepetition };

// "stop", "length", "abort", "error", "repetition"; "" for kNone
const char* to_string(FinishReason reason);

// One of Request::markers in the text of a delta. Its own text is [offset, offset + size), which is empty if
// special tokens are left out.
struct TextMarker {
  size_t offset = 0;
  size_t size = 0;
  TokenId token = -1;
};

// The new tokens and text of one sample since the last RequestOutput.
struct CompletionDelta {
  int32_t index = 0;
  std::string text;  // whole characters only; text that may be the start of a stop string is held back
  std::vector<TextMarker> markers;  // in the order of the text
  std::vector<TokenId> token_ids;
  // Per token: where its part of `text` ends, in bytes. Empty if one step has one token.
  std::vector<size_t> text_ends;
  std::vector<PositionLogprobs> logprobs;  // per token; empty unless requested
  double cumulative_logprob = 0.0;         // sum of SampledToken::logprob over all tokens so far
  FinishReason finish_reason = FinishReason::kNone;
  // The stop string or stop token id that ended the sample; monostate for an end token and other reasons.
  std::variant<std::monostate, std::string, TokenId> stop_reason;
};

// Seconds on the monotonic clock (base/clock.h); 0 = not yet.
struct RequestTimes {
  double arrival = 0.0;
  double scheduled = 0.0;
  double first_token = 0.0;
  double last_token = 0.0;
};

struct RequestOutput {
  RequestId request = -1;
  std::vector<CompletionDelta> outputs;
  // For positions 1, 2, ..., with the first output; empty unless requested.
  std::vector<PositionLogprobs> prompt_logprobs;
  std::vector<float> pooled;  // with the last output of a pooling request
  int32_t num_prompt_tokens = 0;
  int32_t num_cached_tokens = 0;   // prompt tokens taken from the prefix cache
  bool finished = false;           // no more outputs follow
  std::optional<Failure> failure;  // set with finished when the request failed
  RequestTimes times;
};

}  // namespace quire
