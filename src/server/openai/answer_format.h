// The parts of OpenAI responses as JSON text, shared by complete responses and stream chunks. Free functions;
// any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/yield_point.h"
#include "contract/request_output.h"
#include "server/openai/generation_spec.h"
#include "server/openai/json_out.h"
#include "server/serving_engine.h"

namespace quire {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
  std::optional<int64_t> reasoning_tokens = {};  // where reasoning is recognized
};

void write_usage(JsonOut& out, const Usage& usage);

// "stop_reason": the stop string or the id of the stop token that ended the output; null if there is none.
void write_stop_reason(JsonOut& out, const std::variant<std::monostate, std::string, TokenId>& reason);

// The value of X-Ignored-Params.
std::string ignored_header(const std::vector<std::string>& names);

// Passes `yield_point` about every millisecond.
void write_token_ids(JsonOut& out, std::span<const TokenId> ids, const YieldPoint& yield_point = {});

// The token in logprobs: its text, or "bytes:\xf0\x9f" if it is part of a character (as in OpenAI's API), or
// "token_id:N".
std::string token_label(const ServingEngine& engine, TokenId id, bool as_id);

// Chat: {"content": [{token, logprob, bytes, top_logprobs}, ...], "refusal": null}
void write_chat_logprobs(JsonOut& out, const ServingEngine& engine,
                         std::span<const PositionLogprobs> positions, const GenerationSpec& spec);

// One token of a completion's logprobs, echoed tokens included.
struct CompletionToken {
  PositionLogprobs position;
  bool has_logprob = true;     // false for the first token of a prompt
  int64_t num_characters = 0;  // characters of the text that begin in this token
};

// Characters that begin in the token's bytes; 0 for a special token that is left out of the text.
int64_t count_characters(const ServingEngine& engine, TokenId token, bool skip_special_tokens);

// Completions: {tokens, token_logprobs, top_logprobs, text_offset}. `offset`: characters of the text before
// these tokens; advanced.
void write_completion_logprobs(JsonOut& out, const ServingEngine& engine,
                               std::span<const CompletionToken> tokens, const GenerationSpec& spec,
                               int64_t& offset);

// vLLM's prompt_logprobs: [null, {"<id>": {logprob, rank, decoded_token}, ...}, ...]. The rank of
// alternatives that the request named is null.
void write_prompt_logprobs(JsonOut& out, const ServingEngine& engine,
                           std::span<const PositionLogprobs> positions, int32_t num_alternatives);

// The tokens of an echoed prompt with their log-probabilities. Tokens that are not part of its text, such as
// a BOS token that was added, have no characters.
std::vector<CompletionToken> echoed_tokens(const ServingEngine& engine, const PromptInput& prompt,
                                           std::span<const PositionLogprobs> prompt_logprobs);

// OpenAI's names, and vLLM's for reasons that OpenAI does not have.
std::string_view finish_reason_name(FinishReason reason);

}  // namespace quire
