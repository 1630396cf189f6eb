// Offline inference with a model.
//
//   quire::LLM llm({.model = "path/to/model"});
//   auto outputs = llm.generate({"Once upon a time"}, {.max_tokens = 64, .temperature = 0});
//   std::cout << outputs[0].outputs[0].text;
//
// All prompts of a call, and the calls of all threads, run in one batch. Errors are thrown as quire::Error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quire/engine_options.h"
#include "quire/error.h"
#include "quire/pooling_params.h"
#include "quire/sampling_params.h"

namespace quire {

struct Logprob {
  TokenId token = -1;
  float logprob = 0.0F;  // natural logarithm
  int32_t rank = 0;      // 1 = most probable token; 0 = of a token that the request named, not known
};

// One output of a prompt.
struct Completion {
  int32_t index = 0;
  std::string text;
  std::vector<TokenId> token_ids;
  double cumulative_logprob = 0.0;  // without tokens that a constraint forced, unless logprobs were requested
  std::vector<std::vector<Logprob>> logprobs;  // per token, the generated one first; empty unless requested
  std::string finish_reason;                   // stop, length, abort, repetition
  std::optional<std::string> stop_string;      // the stop string that ended the output
  std::optional<TokenId> stop_token;           // the stop token that ended the output
};

struct GenerationTimes {  // seconds
  double queued = 0.0;
  double first_token = 0.0;  // from arrival
  double total = 0.0;
};

// The result for one prompt.
struct Generation {
  std::string prompt;  // empty if the prompt was given as token ids
  std::vector<TokenId> prompt_token_ids;
  std::vector<std::vector<Logprob>>
      prompt_logprobs;              // starting at the prompt's second token; empty unless requested
  std::vector<Completion> outputs;  // [n]
  int32_t num_cached_tokens = 0;    // prompt tokens found in the prefix cache
  GenerationTimes times;
};

// The result of a pooling request: an embedding, or one score per label.
struct PooledOutput {
  std::vector<TokenId> prompt_token_ids;
  std::vector<float> values;
  std::string label;  // classifiers: the label with the highest score
  int32_t num_cached_tokens = 0;
};

// A call of a function by the assistant.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // the text of a JSON object
};

// A message of a conversation. Most have a role and a content only: {"user", "Hello"}.
struct ChatMessage {
  std::string role;  // system, user, assistant, tool
  std::string content{};
  std::vector<ToolCall> tool_calls{};  // calls that the assistant made
  std::string tool_call_id{};          // id of the call whose result this is
  std::string name{};                  // name of the function or of the participant
  std::string reasoning_content{};     // reasoning before the answer
};

// Inputs of a chat template besides the messages. `tools`, `documents` and `chat_template_kwargs` are JSON:
// two lists and an object; empty = none.
struct ChatOptions {
  std::string tools{};
  std::string documents{};
  std::string chat_template_kwargs{};  // more variables of the template
  std::string chat_template{};         // Jinja source that replaces the model's template
  bool add_generation_prompt = true;   // begin the assistant's message; ignored with continue_final_message
  bool continue_final_message = false;
};

// A prompt as text or as token ids. Token ids take precedence.
struct Prompt {
  Prompt(const char* words) : text(words) {}                       // NOLINT: implicit on purpose
  Prompt(std::string words) : text(std::move(words)) {}            // NOLINT: implicit on purpose
  Prompt(std::vector<TokenId> ids) : token_ids(std::move(ids)) {}  // NOLINT: implicit on purpose
  std::string text;
  std::vector<TokenId> token_ids;
  std::string lora;  // an adapter of EngineOptions::lora_modules or lora_dir; empty = the base model
};

// An output while it is generated. Destroying it before the end cancels the request. It may outlive its LLM:
// the model then stays in memory until the stream is destroyed.
class Stream {
 public:
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  // Blocks until new text is available and returns it (whole characters only); nullopt at the end. Throws
  // Error if the request failed.
  std::optional<std::string> next();
  void cancel();
  // The output so far; complete after next() has returned nullopt.
  const Completion& completion() const;
  // Complete after next() has returned nullopt.
  const GenerationTimes& times() const;

 private:
  friend class LLM;
  struct Impl;
  explicit Stream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct RunStatistics {
  int64_t num_requests = 0;  // finished
  int64_t num_steps = 0;
  int64_t prompt_tokens = 0;
  int64_t generation_tokens = 0;
  int64_t num_preemptions = 0;
  int64_t prefix_cache_queries = 0;  // tokens
  int64_t prefix_cache_hits = 0;     // tokens
  double kv_waste = 0.0;             // fraction of allocated KV slots without a token
  int64_t num_blocks = 0;
  int64_t num_free_blocks = 0;
};

struct ModelDescription {
  std::string name;
  std::string architecture;
  std::string task;  // generate, embed, classify
  bool has_chat_template = false;
  int64_t embedding_size = 0;
  std::vector<std::string> labels;
  std::string weight_dtype;
  std::string quantization;  // empty = none
  std::string kv_cache_dtype;
  std::string device;  // "cpu avx512"
  std::string isa;     // selected instruction set
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;
  int64_t kv_pool_bytes = 0;
  int64_t kv_bytes_per_token = 0;
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;
  int32_t max_new_tokens = 0;  // of generation_config.json: the default length of answers; 0 = none
  int32_t num_threads = 0;
  double load_seconds = 0.0;
};

// Thread-safe: every member can be called from any thread.
class LLM {
 public:
  // Loads the model. `progress` receives the fraction done. Batches can have any size;
  // max_num_queued_requests does not apply to them.
  explicit LLM(const EngineOptions& options = {}, const std::function<void(double)>& progress = {});
  ~LLM();
  LLM(LLM&&) noexcept;
  LLM& operator=(LLM&&) noexcept;

  // Returns one Generation per prompt, in the same order. The second form takes one SamplingParams per
  // prompt.
  std::vector<Generation> generate(const std::vector<Prompt>& prompts, const SamplingParams& params = {});
  std::vector<Generation> generate(const std::vector<Prompt>& prompts,
                                   std::span<const SamplingParams> params);
  // Generates a response to a conversation, using the model's chat template.
  Generation chat(const std::vector<ChatMessage>& messages, const SamplingParams& params = {},
                  const ChatOptions& options = {});
  // The same for JSON: a list of messages, or an object with `messages`, `tools`, `documents`,
  // `chat_template_kwargs`, `chat_template`, `add_generation_prompt` and `continue_final_message`, in the
  // forms of /v1/chat/completions. Messages have all their fields, and lists of parts as content.
  Generation chat_json(const std::string& json, const SamplingParams& params = {});

  // Returns one result per prompt, in the same order: an embedding, or scores per label. Throws Error unless
  // the model is a pooling model or EngineOptions::runner is "pooling".
  std::vector<PooledOutput> encode(const std::vector<Prompt>& prompts, const PoolingParams& params = {});
  // encode() for embedding models and for classifiers. They throw Error for other models.
  std::vector<PooledOutput> embed(const std::vector<Prompt>& prompts, const PoolingParams& params = {});
  std::vector<PooledOutput> classify(const std::vector<Prompt>& prompts, const PoolingParams& params = {});
  // Returns the relevance of each document for the query (one query for all documents, or one per document):
  // the score of a reranker, or the cosine similarity of two embeddings.
  std::vector<float> score(const std::vector<std::string>& queries, const std::vector<std::string>& documents,
                           const PoolingParams& params = {});

  // Return the prompt that chat() and chat_json() use for a conversation.
  std::vector<TokenId> chat_prompt(const std::vector<ChatMessage>& messages,
                                   const ChatOptions& options = {}) const;
  std::vector<TokenId> chat_prompt_json(const std::string& json) const;

  // Stream the first output while it is generated.
  Stream generate_stream(const Prompt& prompt, const SamplingParams& params = {});
  Stream chat_stream(const std::vector<ChatMessage>& messages, const SamplingParams& params = {},
                     const ChatOptions& options = {});
  Stream chat_stream_json(const std::string& json, const SamplingParams& params = {});

  std::vector<TokenId> tokenize(const std::string& text, bool add_special_tokens = true) const;
  std::string detokenize(const std::vector<TokenId>& ids, bool skip_special_tokens = true) const;

  // Returns the model's sampling defaults (generation_config.json).
  SamplingParams default_sampling_params() const;
  ModelDescription model() const;
  RunStatistics statistics() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
