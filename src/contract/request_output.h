// What a request's owner receives while it runs: differences, in order. Made on the engine thread, moved to
// the owner.
#pragma once

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

enum class FinishReason { kNone, kStop, kLength, kAbort, kError };

const char* to_string(FinishReason reason);  // "stop", "length", "abort", "error"; "" for kNone

// What is new of one sample since the last RequestOutput.
struct CompletionDelta {
  int32_t index = 0;
  std::string text;  // whole characters only; what may belong to a stop string is held back
  std::vector<TokenId> token_ids;
  std::vector<PositionLogprobs> logprobs;  // one a token where asked for
  double cumulative_logprob = 0.0;         // so far
  FinishReason finish_reason = FinishReason::kNone;
  // What ended it beyond an end token: the stop string or the stop token id.
  std::variant<std::monostate, std::string, TokenId> stop_reason;
};

// Seconds on the monotonic clock (base/clock.h); 0 where it has not happened.
struct RequestTimes {
  double arrival = 0.0;
  double scheduled = 0.0;
  double first_token = 0.0;
  double last_token = 0.0;
};

struct RequestOutput {
  RequestId request = -1;
  std::vector<CompletionDelta> outputs;
  std::vector<PositionLogprobs>
      prompt_logprobs;        // once, with the first output, for positions 1, 2, ...; where asked for
  std::vector<float> pooled;  // with the last output of a request for a vector
  int32_t num_prompt_tokens = 0;
  int32_t num_cached_tokens = 0;   // prompt tokens taken from the prefix cache
  bool finished = false;           // no more outputs follow
  std::optional<Failure> failure;  // set with finished when the request failed
  RequestTimes times;
};

}  // namespace quire
