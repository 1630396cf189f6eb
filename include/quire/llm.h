// Offline inference: a model, prompts in, texts out.
//
//   quire::LLM llm({.model = "path/to/model"});
//   auto outputs = llm.generate({"Once upon a time"}, {.max_tokens = 64, .temperature = 0});
//   std::cout << outputs[0].outputs[0].text;
//
// All prompts of a call, and the calls of all threads, run in one batch. What went wrong is thrown as
// quire::Error.
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
  int32_t rank = 0;      // 1: the most likely
};

// One sample of a prompt.
struct Completion {
  int32_t index = 0;
  std::string text;
  std::vector<TokenId> token_ids;
  double cumulative_logprob = 0.0;
  std::vector<std::vector<Logprob>>
      logprobs;                            // one list a token, the chosen one first; empty unless asked for
  std::string finish_reason;               // stop, length, abort
  std::optional<std::string> stop_string;  // the stop string that ended it
  std::optional<TokenId> stop_token;       // the stop token that ended it
};

struct GenerationTimes {  // seconds
  double queued = 0.0;
  double first_token = 0.0;  // from arrival
  double total = 0.0;
};

// All that came of one prompt.
struct Generation {
  std::string prompt;  // empty where the prompt was given as ids
  std::vector<TokenId> prompt_token_ids;
  std::vector<std::vector<Logprob>>
      prompt_logprobs;              // for the prompt's second token on; empty unless asked for
  std::vector<Completion> outputs;  // [n]
  int32_t num_cached_tokens = 0;    // prompt tokens taken from the prefix cache
  GenerationTimes times;
};

// What a model of embeddings makes of a text, or one of labels: a number for each.
struct PooledOutput {
  std::vector<TokenId> prompt_token_ids;
  std::vector<float> values;
  std::string label;  // of a classifier: that of the highest value
  int32_t num_cached_tokens = 0;
};

struct ChatMessage {
  std::string role;  // system, user, assistant, tool
  std::string content;
};

// A prompt as text or as ids (ids win where there are some).
struct Prompt {
  Prompt(const char* words) : text(words) {}                       // NOLINT: implicit on purpose
  Prompt(std::string words) : text(std::move(words)) {}            // NOLINT: implicit on purpose
  Prompt(std::vector<TokenId> ids) : token_ids(std::move(ids)) {}  // NOLINT: implicit on purpose
  std::string text;
  std::vector<TokenId> token_ids;
};

// A text while it is written. Movable; destroying it before the end cancels the request.
class Stream {
 public:
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  // The next piece of text (never half a character), or nothing at the end. Blocks. Throws Error when the
  // request failed.
  std::optional<std::string> next();
  void cancel();
  // What came of it; complete once next() returned nothing.
  const Completion& completion() const;

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
  double kv_waste = 0.0;             // allocated but unused KV slots over allocated ones
  int64_t num_blocks = 0;
  int64_t num_free_blocks = 0;
};

struct ModelDescription {
  std::string name;
  std::string architecture;
  std::string task;  // generate, embed, classify
  int64_t embedding_size = 0;
  std::vector<std::string> labels;
  std::string weight_dtype;
  std::string quantization;  // empty: none
  std::string kv_cache_dtype;
  std::string isa;  // instruction set chosen
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;
  int64_t kv_pool_bytes = 0;
  int64_t kv_bytes_per_token = 0;
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;
  int32_t num_threads = 0;
  double load_seconds = 0.0;
};

// Every member may be called from any thread.
class LLM {
 public:
  // `progress` is called while the model is loaded, with 0 to 1. A batch may be of any size: what does not
  // run yet waits, whatever max_num_queued_requests says.
  explicit LLM(const EngineOptions& options = {}, const std::function<void(double)>& progress = {});
  ~LLM();
  LLM(LLM&&) noexcept;
  LLM& operator=(LLM&&) noexcept;

  // One Generation a prompt, in the order of the prompts. One SamplingParams for all, or one for each.
  std::vector<Generation> generate(const std::vector<Prompt>& prompts, const SamplingParams& params = {});
  std::vector<Generation> generate(const std::vector<Prompt>& prompts,
                                   std::span<const SamplingParams> params);
  // The model's answer to a conversation, through its chat template.
  Generation chat(const std::vector<ChatMessage>& messages, const SamplingParams& params = {});

  // One vector a prompt, in the order of the prompts: an embedding, or what a classifier says of each label.
  // The model is one of that kind, or was started with EngineOptions::runner "pooling".
  std::vector<PooledOutput> encode(const std::vector<Prompt>& prompts, const PoolingParams& params = {});
  // encode() of a model that gives embeddings, and of one that gives scores. Else Error.
  std::vector<PooledOutput> embed(const std::vector<Prompt>& prompts, const PoolingParams& params = {});
  std::vector<PooledOutput> classify(const std::vector<Prompt>& prompts, const PoolingParams& params = {});
  // How well each document goes with the one query, or with the query of its number: a reranker's score, or
  // the cosine of two embeddings.
  std::vector<float> score(const std::vector<std::string>& queries, const std::vector<std::string>& documents,
                           const PoolingParams& params = {});

  // The prompt that chat() makes of a conversation.
  std::vector<TokenId> chat_prompt(const std::vector<ChatMessage>& messages) const;

  // The first sample as it is written.
  Stream generate_stream(const Prompt& prompt, const SamplingParams& params = {});
  Stream chat_stream(const std::vector<ChatMessage>& messages, const SamplingParams& params = {});

  std::vector<TokenId> tokenize(const std::string& text, bool add_special_tokens = true) const;
  std::string detokenize(const std::vector<TokenId>& ids, bool skip_special_tokens = true) const;

  // The model's own sampling defaults (generation_config.json).
  SamplingParams default_sampling_params() const;
  ModelDescription model() const;
  RunStatistics statistics() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
