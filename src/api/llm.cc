#include "quire/llm.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "base/strings.h"
#include "engine/chat_context.h"
#include "engine/engine.h"
#include "engine/request_batch.h"
#include "engine/text_pairs.h"

namespace quire {
namespace {

std::vector<Logprob> to_logprobs(const PositionLogprobs& position) {
  std::vector<Logprob> list = {{position.chosen.token, position.chosen.logprob, position.rank}};
  int32_t rank = 0;
  for (const auto& entry : position.top) {
    ++rank;
    if (entry.token != position.chosen.token)
      list.push_back({entry.token, entry.logprob, position.given ? 0 : rank});
  }
  return list;
}

void append_delta(Completion& completion, CompletionDelta&& delta) {
  completion.index = delta.index;
  completion.text += delta.text;
  completion.token_ids.insert(completion.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
  completion.cumulative_logprob = delta.cumulative_logprob;
  for (const auto& position : delta.logprobs) completion.logprobs.push_back(to_logprobs(position));
  if (delta.finish_reason == FinishReason::kNone) return;
  completion.finish_reason = to_string(delta.finish_reason);
  if (auto* text = std::get_if<std::string>(&delta.stop_reason)) completion.stop_string = std::move(*text);
  if (const auto* token = std::get_if<TokenId>(&delta.stop_reason)) completion.stop_token = *token;
}

GenerationTimes to_times(const RequestTimes& t) {
  const auto since_arrival = [&t](double time) { return time > 0.0 ? time - t.arrival : 0.0; };
  return {since_arrival(t.scheduled), since_arrival(t.first_token), since_arrival(t.last_token)};
}

void take_output(Generation& generation, RequestOutput&& output) {
  for (auto& delta : output.outputs) {
    // A beam search may find fewer hypotheses than n.
    if (delta.finish_reason != FinishReason::kNone)
      append_delta(generation.outputs.emplace_back(), std::move(delta));
  }
  for (const auto& position : output.prompt_logprobs)
    generation.prompt_logprobs.push_back(to_logprobs(position));
  generation.num_cached_tokens = output.num_cached_tokens;
  generation.times = to_times(output.times);
}

Json message_fields(const ChatMessage& message) {
  Json fields = {{"role", message.role}, {"content", message.content}};
  if (!message.reasoning_content.empty()) fields["reasoning_content"] = message.reasoning_content;
  for (const ToolCall& call : message.tool_calls) {
    const Json function = {{"name", call.name}, {"arguments", call.arguments}};
    fields["tool_calls"].push_back({{"id", call.id}, {"type", "function"}, {"function", function}});
  }
  if (!message.tool_call_id.empty()) fields["tool_call_id"] = message.tool_call_id;
  if (!message.name.empty()) fields["name"] = message.name;
  return fields;
}

// The fields of a chat request over HTTP.
Json chat_fields(const std::vector<ChatMessage>& messages, const ChatOptions& options) {
  Json fields;
  fields["messages"] = Json::array();
  for (const ChatMessage& message : messages) fields["messages"].push_back(message_fields(message));
  const auto add = [&](const char* name, const std::string& json) {
    if (!json.empty()) fields[name] = require_json(json, cat("ChatOptions::", name));
  };
  add("tools", options.tools);
  add("documents", options.documents);
  add("chat_template_kwargs", options.chat_template_kwargs);
  fields["chat_template"] = options.chat_template;
  fields["add_generation_prompt"] = options.add_generation_prompt && !options.continue_final_message;
  fields["continue_final_message"] = options.continue_final_message;
  return fields;
}

}  // namespace

struct LLM::Impl {
  std::shared_ptr<Engine> engine;

  const Tokenizer& tokenizer() const {
    if (engine->tokenizer() == nullptr) {
      throw Error(cat(engine->model().name, ": has no tokenizer files; give prompts as token ids"));
    }
    return *engine->tokenizer();
  }
  std::vector<TokenId> prompt_ids(const Prompt& prompt) const {
    if (!prompt.token_ids.empty()) return prompt.token_ids;
    return tokenizer().encode(prompt.text, true);
  }
  // The prompt for the fields of a chat request.
  std::vector<TokenId> chat_ids(const Json& fields) const;
  // A text to be embedded, after the model's default prompt if it has one.
  PooledText pooled_text(const Prompt& prompt) const;
  // Throws Error if the model has another task.
  void require(ModelTask task, const char* what) const;
  std::vector<PooledOutput> pool(const std::vector<PooledText>& texts, const PoolingParams& params);
  // Runs all requests, or throws Error and runs none.
  std::vector<RequestOutput> run(std::vector<Request> requests) const;
  // params: one entry per prompt.
  std::vector<Generation> generate(const std::vector<Prompt>& prompts,
                                   const std::vector<SharedSamplingParams>& params);
};

PooledText LLM::Impl::pooled_text(const Prompt& prompt) const {
  const ModelInfo& info = engine->model();
  if (!prompt.token_ids.empty() || info.default_prompt.empty()) return {prompt_ids(prompt), 0};
  return {tokenizer().encode(info.prompts.at(info.default_prompt) + prompt.text, true), 0};
}

void LLM::Impl::require(ModelTask task, const char* what) const {
  if (engine->model().task == task) return;
  throw Error(cat(engine->model().name, " (", engine->model().architecture, "): gives no ", what));
}

std::vector<PooledOutput> LLM::Impl::pool(const std::vector<PooledText>& texts, const PoolingParams& params) {
  const ModelInfo& info = engine->model();
  std::vector<PooledOutput> results(texts.size());
  std::vector<Request> requests(texts.size());
  SharedSamplingParams sampling;
  sampling.edit().max_tokens = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    results[i].prompt_token_ids = texts[i].ids;
    requests[i].prompt_token_ids = texts[i].ids;
    requests[i].sampling = sampling;
    requests[i].pooling = PoolingRequest{params, texts[i].second_text, info.pools_all_tokens};
  }
  std::vector<RequestOutput> outputs = run(std::move(requests));
  for (size_t i = 0; i < texts.size(); ++i) {
    if (outputs[i].pooled.empty())
      throw Error(cat("prompt ", i, ": it was ended before its vector was computed"));
    results[i].values = std::move(outputs[i].pooled);
    results[i].num_cached_tokens = outputs[i].num_cached_tokens;
  }
  for (PooledOutput& result : results) {
    const auto best = std::max_element(result.values.begin(), result.values.end()) - result.values.begin();
    if (static_cast<size_t>(best) < info.labels.size()) result.label = info.labels[static_cast<size_t>(best)];
  }
  return results;
}

std::vector<PooledOutput> LLM::encode(const std::vector<Prompt>& prompts, const PoolingParams& params) {
  std::vector<PooledText> texts;
  texts.reserve(prompts.size());
  for (const Prompt& prompt : prompts) texts.push_back(impl_->pooled_text(prompt));
  return impl_->pool(texts, params);
}

std::vector<PooledOutput> LLM::embed(const std::vector<Prompt>& prompts, const PoolingParams& params) {
  impl_->require(ModelTask::kEmbed,
                 "embeddings (EngineOptions::runner \"pooling\" makes them of any text model)");
  return encode(prompts, params);
}

std::vector<PooledOutput> LLM::classify(const std::vector<Prompt>& prompts, const PoolingParams& params) {
  impl_->require(ModelTask::kScore, "scores of labels");
  return encode(prompts, params);
}

std::vector<float> LLM::score(const std::vector<std::string>& queries,
                              const std::vector<std::string>& documents, const PoolingParams& params) {
  if (queries.size() != 1 && queries.size() != documents.size())
    throw Error(cat(queries.size(), " queries and ",
                    counted(static_cast<int64_t>(documents.size()), "document"),
                    ": there must be one query, or one for each"));
  std::vector<float> scores;
  if (impl_->engine->model().task == ModelTask::kEmbed) {
    const auto left = encode({queries.begin(), queries.end()}, params);
    const auto right = encode({documents.begin(), documents.end()}, params);
    for (size_t i = 0; i < right.size(); ++i)
      scores.push_back(static_cast<float>(cosine(left[left.size() == 1 ? 0 : i].values, right[i].values)));
    return scores;
  }
  impl_->require(ModelTask::kScore, "scores");
  if (impl_->engine->model().labels.size() != 1)
    throw Error(cat("the model gives scores for ", impl_->engine->model().labels.size(),
                    " labels; a reranker has one"));
  std::vector<PooledText> texts;
  (void)impl_->tokenizer();
  for (size_t i = 0; i < documents.size(); ++i) {
    auto pair = encode_pair(*impl_->engine, queries[queries.size() == 1 ? 0 : i], documents[i]);
    if (!pair.ok()) throw Error(cat("document ", i, ": ", pair.failure().message));
    texts.push_back(std::move(pair).value());
  }
  for (const PooledOutput& output : impl_->pool(texts, params)) scores.push_back(output.values.front());
  return scores;
}

std::vector<TokenId> LLM::Impl::chat_ids(const Json& fields) const {
  auto request = read_chat_request(fields);
  if (!request.ok()) throw Error(request.failure().message);
  if (engine->chat_templates().empty() && request->chat_template.empty())
    throw Error(cat(engine->model().name, ": has no chat template; set EngineOptions::chat_template"));
  const auto text = render_chat(engine->chat_templates(), &tokenizer(), std::move(request).value());
  if (!text.ok()) throw Error(text.failure().message);
  return tokenizer().encode_rendered(*text);
}

LLM::LLM(const EngineOptions& options, const std::function<void(double)>& progress)
    : impl_(std::make_unique<Impl>()) {
  LoadProgressCallback on_load;
  if (progress) {
    on_load = [&progress](int64_t done, int64_t total) {
      progress(total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1.0);
    };
  }
  EngineConfig config = options;
  config.max_num_queued_requests = std::numeric_limits<int32_t>::max();
  impl_->engine = Engine::start(config, on_load);
}

LLM::~LLM() = default;
LLM::LLM(LLM&&) noexcept = default;
LLM& LLM::operator=(LLM&&) noexcept = default;

std::vector<Generation> LLM::generate(const std::vector<Prompt>& prompts, const SamplingParams& params) {
  const SharedSamplingParams shared(params);
  return impl_->generate(prompts, std::vector<SharedSamplingParams>(prompts.size(), shared));
}

std::vector<Generation> LLM::generate(const std::vector<Prompt>& prompts,
                                      std::span<const SamplingParams> params) {
  if (params.size() != prompts.size()) {
    throw Error(cat(counted(static_cast<int64_t>(prompts.size()), "prompt"), ", but sampling parameters for ",
                    params.size()));
  }
  return impl_->generate(prompts, std::vector<SharedSamplingParams>(params.begin(), params.end()));
}

std::vector<RequestOutput> LLM::Impl::run(std::vector<Request> requests) const {
  RequestBatch batch(engine);
  if (const Status submitted = batch.submit(std::move(requests)); !submitted.ok())
    throw Error(submitted.failure().message);
  batch.wait();
  if (const auto failed = batch.failed())
    throw Error(cat("prompt ", failed->first, ": ", failed->second.message));
  return std::move(batch.outputs());
}

std::vector<Generation> LLM::Impl::generate(const std::vector<Prompt>& prompts,
                                            const std::vector<SharedSamplingParams>& params) {
  std::vector<Generation> generations(prompts.size());
  std::vector<Request> requests(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    generations[i].prompt = prompts[i].text;
    generations[i].prompt_token_ids = prompt_ids(prompts[i]);
    requests[i].prompt_token_ids = generations[i].prompt_token_ids;
    requests[i].sampling = params[i];
    requests[i].adapter_name = prompts[i].lora;
  }
  std::vector<RequestOutput> outputs = run(std::move(requests));
  for (size_t i = 0; i < outputs.size(); ++i) take_output(generations[i], std::move(outputs[i]));
  return generations;
}

Generation LLM::chat(const std::vector<ChatMessage>& messages, const SamplingParams& params,
                     const ChatOptions& options) {
  return std::move(generate({Prompt(chat_prompt(messages, options))}, params).front());
}

Generation LLM::chat_json(const std::string& json, const SamplingParams& params) {
  return std::move(generate({Prompt(chat_prompt_json(json))}, params).front());
}

std::vector<TokenId> LLM::chat_prompt(const std::vector<ChatMessage>& messages,
                                      const ChatOptions& options) const {
  return impl_->chat_ids(chat_fields(messages, options));
}

std::vector<TokenId> LLM::chat_prompt_json(const std::string& json) const {
  Json fields = require_json(json, "the conversation");
  if (fields.is_array()) fields = {{"messages", std::move(fields)}};
  if (!fields.is_object())
    throw Error(
        cat("the conversation must be a list of messages or an object, not ", json_type_name(fields)));
  return impl_->chat_ids(fields);
}

// Keeps the engine alive, which may outlive its LLM.
struct Stream::Impl {
  explicit Impl(std::shared_ptr<Engine> shared) : engine(std::move(shared)), batch(engine) {}

  std::shared_ptr<Engine> engine;
  RequestBatch batch;
  Completion completion;
  GenerationTimes times;
  bool finished = false;
};

Stream::Stream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

std::optional<std::string> Stream::next() {
  while (impl_ && !impl_->finished) {
    RequestOutput output = impl_->batch.next();
    impl_->finished = output.finished;
    impl_->times = to_times(output.times);
    if (output.failure) throw Error(output.failure->message);
    if (output.outputs.empty()) continue;
    CompletionDelta& delta = output.outputs.front();
    std::string piece = delta.text;
    append_delta(impl_->completion, std::move(delta));
    if (!piece.empty()) return piece;
  }
  return std::nullopt;
}

void Stream::cancel() {
  if (impl_) impl_->batch.abort();
}

const Completion& Stream::completion() const {
  return impl_->completion;
}

const GenerationTimes& Stream::times() const {
  return impl_->times;
}

Stream LLM::generate_stream(const Prompt& prompt, const SamplingParams& params) {
  auto stream = std::make_unique<Stream::Impl>(impl_->engine);
  std::vector<Request> requests(1);
  requests.front().prompt_token_ids = impl_->prompt_ids(prompt);
  requests.front().sampling = params;
  requests.front().adapter_name = prompt.lora;
  if (const Status submitted = stream->batch.submit(std::move(requests)); !submitted.ok())
    throw Error(submitted.failure().message);
  return Stream(std::move(stream));
}

Stream LLM::chat_stream(const std::vector<ChatMessage>& messages, const SamplingParams& params,
                        const ChatOptions& options) {
  return generate_stream(Prompt(chat_prompt(messages, options)), params);
}

Stream LLM::chat_stream_json(const std::string& json, const SamplingParams& params) {
  return generate_stream(Prompt(chat_prompt_json(json)), params);
}

std::vector<TokenId> LLM::tokenize(const std::string& text, bool add_special_tokens) const {
  return impl_->tokenizer().encode(text, add_special_tokens);
}

std::string LLM::detokenize(const std::vector<TokenId>& ids, bool skip_special_tokens) const {
  return impl_->tokenizer().decode(ids, skip_special_tokens);
}

SamplingParams LLM::default_sampling_params() const {
  return impl_->engine->default_sampling();
}

ModelDescription LLM::model() const {
  const ModelInfo& info = impl_->engine->model();
  return ModelDescription{.name = info.name,
                          .architecture = info.architecture,
                          .task = info.task == ModelTask::kGenerate ? "generate"
                                  : info.task == ModelTask::kEmbed  ? "embed"
                                                                    : "classify",
                          .has_chat_template = !impl_->engine->chat_templates().empty(),
                          .embedding_size = info.embedding_size,
                          .labels = info.labels,
                          .weight_dtype = info.weight_dtype,
                          .quantization = info.quantization,
                          .kv_cache_dtype = info.kv_cache_dtype,
                          .device = info.device,
                          .isa = info.isa,
                          .num_parameters = info.num_parameters,
                          .weight_bytes = info.weight_bytes,
                          .kv_pool_bytes = info.kv_pool_bytes,
                          .kv_bytes_per_token = info.kv_bytes_per_token,
                          .vocab_size = info.vocab_size,
                          .max_model_len = info.max_model_len,
                          .max_new_tokens = info.max_new_tokens,
                          .num_threads = info.num_threads,
                          .load_seconds = info.load_seconds};
}

RunStatistics LLM::statistics() const {
  const EngineStats stats = impl_->engine->stats();
  return RunStatistics{.num_requests = stats.num_finished,
                       .num_steps = stats.num_steps,
                       .prompt_tokens = stats.prompt_tokens,
                       .generation_tokens = stats.generation_tokens,
                       .num_preemptions = stats.num_preemptions,
                       .prefix_cache_queries = stats.prefix_cache_queries,
                       .prefix_cache_hits = stats.prefix_cache_hits,
                       .kv_waste = stats.kv_waste,
                       .num_blocks = stats.num_blocks,
                       .num_free_blocks = stats.num_free_blocks};
}

}  // namespace quire
