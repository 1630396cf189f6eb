// The pieces of which OpenAI's answers are made, as JSON text: the same for whole answers and for stream
// chunks. Plain functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "contract/request_output.h"
#include "server/openai/generation_spec.h"
#include "server/openai/json_out.h"
#include "server/serving_engine.h"

namespace quire {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
};

void write_usage(JsonOut& out, const Usage& usage);

// "stop_reason": the stop string or token id that ended a text, else null.
void write_stop_reason(JsonOut& out, const std::variant<std::monostate, std::string, TokenId>& reason);

// The value of X-Ignored-Params.
std::string ignored_header(const std::vector<std::string>& names);

void write_token_ids(JsonOut& out, std::span<const TokenId> ids);

// How logprobs name a token: its text, or "bytes:\xf0\x9f" where it is no whole characters (as OpenAI writes
// it), or "token_id:N".
std::string token_label(const ServingEngine& engine, TokenId id, bool as_id);

// Chat: {"content": [{token, logprob, bytes, top_logprobs}, ...], "refusal": null}
void write_chat_logprobs(JsonOut& out, const ServingEngine& engine,
                         std::span<const PositionLogprobs> positions, const GenerationSpec& spec);

// One token of a completion's logprobs; echoed tokens are among them.
struct CompletionToken {
  PositionLogprobs position;
  bool known = true;  // false for the first token of a prompt, which has no probability
};

// Completions: {tokens, token_logprobs, top_logprobs, text_offset}. `offset`: characters of the text before
// these tokens; moved on.
void write_completion_logprobs(JsonOut& out, const ServingEngine& engine,
                               std::span<const CompletionToken> tokens, const GenerationSpec& spec,
                               int64_t& offset);

// vLLM's prompt_logprobs: [null, {"<id>": {logprob, rank, decoded_token}, ...}, ...]
void write_prompt_logprobs(JsonOut& out, const ServingEngine& engine,
                           std::span<const PositionLogprobs> positions, int32_t num_alternatives);

// The tokens that are echoed in front of a completion, with what is known of them.
std::vector<CompletionToken> echoed_tokens(std::span<const TokenId> prompt,
                                           std::span<const PositionLogprobs> prompt_logprobs);

// For answers that were cut short: OpenAI's names, and vLLM's for what OpenAI has none.
std::string_view finish_reason_name(FinishReason reason);

}  // namespace quire
