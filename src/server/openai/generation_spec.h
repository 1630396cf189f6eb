// A completions or chat request after parsing: what the engine has to do and how the response is written.
// Plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/yield_point.h"
#include "contract/sampling_params.h"
#include "server/serving_engine.h"
#include "text/output/output_parser.h"

namespace quire {

constexpr int32_t kMaxChoices = 16384;  // prompts multiplied by n, per request

// The options of the server that parsing depends on.
struct ApiOptions {
  std::vector<std::string> model_names;      // the first is the model name in responses; never empty
  bool strict_params = false;                // unknown fields are errors
  bool trust_request_chat_template = false;  // a request may contain its own chat template
  bool force_include_usage = false;          // every stream ends with its usage
  bool tokens_as_ids = false;                // default of return_tokens_as_token_ids
  Json default_chat_template_kwargs = Json::object();  // variables that a request does not set
  DetectedFormat formats;                              // formats of reasoning and tool calls
  bool lora_updating = false;                          // adapters may be loaded and unloaded
  std::vector<std::string> lora_dirs = {};             // directories that they may be loaded from
};

// A model that a request names.
struct ModelChoice {
  std::string name;          // as named in the response
  std::string adapter = {};  // the same if it is an adapter; empty = the base model
};

// The fields of a request that identify and order it.
struct RequestLabels {
  std::string id;       // "chatcmpl-...", "cmpl-..."
  std::string model;    // as named in the response
  std::string adapter;  // Request::adapter_name
  int64_t created = 0;
  int32_t priority = 0;
  std::string client;      // the API key, or the request's `user` if there are no keys
  std::string cache_salt;  // empty = none
  std::vector<std::string> ignored_params;
};

// How the output of a chat is divided into reasoning, text and tool calls.
struct OutputReading {
  OutputParserOptions parser;
  bool calls_are_text = false;  // no tool may be called: a format that has to be read all the same
  bool parallel = true;         // false: what follows the first call is dropped
  bool old_form = false;        // the response has function_call instead of tool_calls
  bool show_reasoning = true;   // false: reasoning is dropped
};

struct PromptInput {
  std::vector<TokenId> ids;
  std::string text;                       // as given; decoded from the tokens if echo needs it
  int32_t max_tokens = 0;                 // the request's, or what the context leaves for this prompt
  SharedConstraint constraint = nullptr;  // instead of the request's: with the place where reasoning begins
};

struct GenerationSpec : RequestLabels {
  bool chat = false;
  std::vector<PromptInput> prompts;
  SamplingParams sampling;  // except for max_tokens, which each prompt has
  SharedConstraint constraint;
  std::optional<OutputReading> reading;                 // of chats of a model that has a format
  std::shared_ptr<const std::vector<TokenId>> markers;  // tokens of that format

  // Compiles the constraints of the request: see constrain(). Null once it has.
  std::function<Status(GenerationSpec&, const CompileOptions&)> compile_constraints;

  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool include_timings = false;
  bool echo = false;
  std::string echoed_message = {};  // chat: the text of the last message, which the answer begins with
  bool return_token_ids = false;
  bool tokens_as_ids = false;              // logprobs name tokens "token_id:N"
  std::optional<int32_t> logprobs;         // alternatives in the response per token
  std::optional<int32_t> prompt_logprobs;  // from the field of that name; written in vLLM's format
};

// `request_id` is used if the body has no request_id. Both tokenize, and throw Cancelled soon after
// `yield_point` is cancelled. constrain() has to follow; until then, the body, the engine and the options
// must exist.
Result<GenerationSpec> parse_completion(const Json& body, const ServingEngine& engine,
                                        const ApiOptions& options, const std::string& request_id,
                                        const YieldPoint& yield_point = {});
Result<GenerationSpec> parse_chat_completion(const Json& body, const ServingEngine& engine,
                                             const ApiOptions& options, const std::string& request_id,
                                             const YieldPoint& yield_point = {});
// The last part of parsing. Throws NeedsMoreEffort or Cancelled as the options say; it can then be called
// again.
Status constrain(GenerationSpec& spec, const CompileOptions& options = {});

}  // namespace quire
