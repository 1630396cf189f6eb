// A completions or chat request after parsing: what to ask of the engine and how to write the answer. Plain
// data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "contract/sampling_params.h"
#include "server/serving_engine.h"

namespace quire {

// What of the server's options the reading of requests needs.
struct ApiOptions {
  std::vector<std::string> model_names;      // the first is what answers call the model; never empty
  bool strict_params = false;                // unknown fields are errors
  bool trust_request_chat_template = false;  // a request may bring its own chat template
};

struct PromptInput {
  std::vector<TokenId> ids;
  std::string text;        // as given, or the tokens' text where echo needs it
  int32_t max_tokens = 0;  // the request's, or what this prompt leaves
};

struct GenerationSpec {
  bool chat = false;
  std::string id;     // "chatcmpl-...", "cmpl-..."
  std::string model;  // as answers call it
  int64_t created = 0;
  std::vector<PromptInput> prompts;
  SamplingParams sampling;  // but for max_tokens, which is the prompt's
  int32_t priority = 0;
  std::string client;  // who asks: the request's `user`, unless an API key says it
  std::string cache_salt;

  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool echo = false;
  bool return_token_ids = false;
  bool tokens_as_ids = false;              // logprobs name tokens "token_id:N"
  std::optional<int32_t> logprobs;         // alternatives to write for each token
  std::optional<int32_t> prompt_logprobs;  // asked for in its own field, written in vLLM's form
  std::vector<std::string> ignored_params;
};

// `request_id` names the request where the body's request_id does not.
Result<GenerationSpec> parse_completion(const Json& body, const ServingEngine& engine,
                                        const ApiOptions& options, const std::string& request_id);
Result<GenerationSpec> parse_chat_completion(const Json& body, const ServingEngine& engine,
                                             const ApiOptions& options, const std::string& request_id);

}  // namespace quire
