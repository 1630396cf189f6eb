#include "server/openai/generation.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "base/counted.h"
#include "base/log.h"
#include "base/strings.h"
#include "server/openai/errors.h"

namespace quire {
namespace {

// Tokens and log-probabilities that the connection's thread may write in one go; this takes a few
// milliseconds.
constexpr size_t kMaxEntriesOnHttpThread = 4096;

size_t num_entries(const std::vector<PositionLogprobs>& positions) {
  size_t num = 0;
  for (const PositionLogprobs& position : positions) num += 1 + position.top.size();
  return num;
}

size_t num_entries(const RequestOutput& output) {
  size_t num = num_entries(output.prompt_logprobs);
  for (const CompletionDelta& delta : output.outputs)
    num += delta.token_ids.size() + num_entries(delta.logprobs);
  return num;
}

Failure internal_error() {
  return {ErrorKind::kInternal, "an internal error occurred; the server's log has the details", ""};
}

}  // namespace

GenerationResponse::GenerationResponse(ServingEngine& engine, GenerationSpec spec,
                                       std::shared_ptr<ResponseWriter> writer, GenerationSettings settings,
                                       std::stop_source stop)
    : engine_(engine),
      spec_(std::move(spec)),
      writer_(std::move(writer)),
      settings_(std::move(settings)),
      stop_(std::move(stop)) {
  prompts_.resize(spec_.prompts.size());
  num_unfinished_ = prompts_.size();
  if (!spec_.reading) return;
  std::random_device random;
  salt_ = uint64_t{random()} << 32 | random();
}

void GenerationResponse::start() {
  on_stop_.emplace(stop_.get_token(), Abort{this});
  const Status submitted = submit_all();
  std::optional<Failure> failure;
  if (!submitted.ok()) failure = submitted.failure();
  if (failure && spec_.chat && failure->param == "prompt") failure->param = "messages";
  writer_->post([self = shared_from_this(), failure = std::move(failure)] { self->begin_response(failure); });
}

Status GenerationResponse::submit_all() {
  // Prompts differ in max_tokens only if the context leaves room for fewer than the default (16), so that a
  // few copies of the parameters serve thousands of prompts.
  std::map<int32_t, SharedSamplingParams> sampling;
  std::vector<Request> requests(prompts_.size());
  const bool keeps_ids = spec_.echo || spec_.return_token_ids;
  for (size_t i = 0; i < prompts_.size(); ++i) {
    PromptInput& prompt = spec_.prompts[i];
    const auto [params, added] = sampling.try_emplace(prompt.max_tokens, spec_.sampling);
    if (added) params->second.edit().max_tokens = prompt.max_tokens;
    prompts_[i].num_tokens = static_cast<int64_t>(prompt.ids.size());
    Request& request = requests[i];
    if (keeps_ids) {
      request.prompt_token_ids = prompt.ids;
    } else {
      request.prompt_token_ids = std::move(prompt.ids);
    }
    request.sampling = params->second;
    request.constraint = prompt.constraint != nullptr ? prompt.constraint : spec_.constraint;
    request.markers = spec_.markers;
    request.priority = spec_.priority;
    request.client = spec_.client;
    request.cache_salt = spec_.cache_salt;
    request.adapter_name = spec_.adapter;
  }
  return requests_.submit(std::move(requests), [self = shared_from_this()](size_t i, RequestOutput&& output) {
    self->receive(i, std::move(output));
  });
}

void GenerationResponse::begin_response(const std::optional<Failure>& failure) {
  if (failure) return writer_->send(error_response(*failure));
  if (closed_.load()) return;  // the client has disconnected
  choices_.resize(prompts_.size() * static_cast<size_t>(spec_.sampling.n));
  if (spec_.stream) begin_stream();
  take_outputs();
}

std::string GenerationResponse::remark() const {
  const Usage u = usage();
  return cat(spec_.id, ", ", counted(u.prompt_tokens, "prompt token"), " (", u.cached_tokens, " cached), ",
             u.completion_tokens, " generated");
}

// Any thread.
void GenerationResponse::abort_all() noexcept {
  if (!closed_.exchange(true)) requests_.abort();
}

void GenerationResponse::receive(size_t prompt, RequestOutput&& output) noexcept {
  if (closed_.load(std::memory_order_relaxed)) return;
  {
    const std::lock_guard lock(mutex_);
    try {
      outputs_.push_back({prompt, std::move(output)});
    } catch (...) {
      output_lost_.store(true);
    }
    if (std::exchange(processing_, true)) return;
  }
  writer_->post([self = shared_from_this()] { self->take_outputs(); });
}

void GenerationResponse::take_outputs() {
  std::vector<PromptOutput> outputs;
  {
    const std::lock_guard lock(mutex_);
    if (outputs_.empty() && !output_lost_.load()) {
      processing_ = false;
      return;
    }
    outputs.swap(outputs_);
  }
  size_t entries = 0;
  bool finishing = false;
  for (const PromptOutput& o : outputs) {
    entries += num_entries(o.output);
    finishing = finishing || o.output.finished;
  }
  num_entries_ += entries;
  // A response that is not streamed is written when all outputs have arrived.
  const size_t to_write = spec_.stream ? entries : finishing ? num_entries_ : 0;
  if (to_write > kMaxEntriesOnHttpThread && settings_.pool != nullptr) {
    const auto shared = std::make_shared<std::vector<PromptOutput>>(std::move(outputs));
    // Not with stop_: a response that is complete is written while the server shuts down, too.
    const bool queued = settings_.pool->submit(to_write * 64, std::stop_source(),
                                               [self = shared_from_this(), shared](const YieldPoint&) {
                                                 self->process_on_pool(std::move(*shared));
                                               });
    if (queued) return;
    outputs = std::move(*shared);
  }
  Reply reply;
  process(std::move(outputs), reply);
  deliver(reply);
  {
    const std::lock_guard lock(mutex_);
    if (outputs_.empty() && !output_lost_.load()) {
      processing_ = false;
      return;
    }
  }
  // Other connections of this thread come first.
  writer_->post([self = shared_from_this()] { self->take_outputs(); });
}

void GenerationResponse::process_on_pool(std::vector<PromptOutput> outputs) noexcept {
  try {
    const auto reply = std::make_shared<Reply>();
    process(std::move(outputs), *reply);
    writer_->post([self = shared_from_this(), reply] {
      self->deliver(*reply);
      self->take_outputs();
    });
  } catch (const std::exception& e) {
    log_error("request ", spec_.id, ": ", e.what());
    abort_all();
    writer_->post_failure();
  }
}

void GenerationResponse::process(std::vector<PromptOutput> outputs, Reply& reply) {
  if (output_lost_.exchange(false)) {
    log_error("request ", spec_.id, ": out of memory");
    return fail(internal_error(), reply);
  }
  for (PromptOutput& o : outputs) {
    if (closed_.load()) return;
    take(o.prompt, std::move(o.output), reply);
  }
  if (!closed_.load() && num_unfinished_ == 0) finish(reply);
}

void GenerationResponse::deliver(Reply& reply) {
  if (reply.response) return writer_->send(std::move(*reply.response));
  if (!reply.stream.empty()) writer_->write(reply.stream);
  if (!reply.end_stream) return;
  writer_->set_outcome(reply.status, std::move(reply.remark));
  writer_->end();
}

void GenerationResponse::take(size_t index, RequestOutput&& output, Reply& reply) {
  Prompt& prompt = prompts_[index];
  if (output.failure) {
    prompt.finished = true;
    return fail(*output.failure, reply);
  }
  prompt.cached_tokens = std::max<int64_t>(prompt.cached_tokens, output.num_cached_tokens);
  prompt.times = output.times;
  if (!output.prompt_logprobs.empty()) prompt.logprobs = std::move(output.prompt_logprobs);
  for (CompletionDelta& delta : output.outputs) take_delta(index, std::move(delta), reply.stream);
  if (!output.finished) end_after_call(index);
  if (!output.finished || prompt.finished) return;
  // A prompt that was only scored generates nothing, but its samples still have to end. A beam search may
  // find fewer hypotheses than n; the missing ones are not in the response.
  const int32_t n = spec_.sampling.use_beam_search ? 0 : std::max(1, spec_.sampling.n);
  for (int32_t i = 0; i < n; ++i) {
    if (choices_[index * static_cast<size_t>(n) + static_cast<size_t>(i)].finish_reason !=
        FinishReason::kNone)
      continue;
    CompletionDelta end;
    end.index = i;
    end.finish_reason = spec_.prompts[index].max_tokens == 0 ? FinishReason::kLength : FinishReason::kAbort;
    take_delta(index, std::move(end), reply.stream);
  }
  prompt.finished = true;
  --num_unfinished_;
}

// Without parallel calls, what follows the first one is not generated.
void GenerationResponse::end_after_call(size_t index) {
  if (prompts_[index].finished || spec_.sampling.n != 1 || choices_.size() != 1) return;
  if (choices_[index].output == nullptr || !choices_[index].output->done()) return;
  prompts_[index].finished = true;
  --num_unfinished_;
  requests_.abort();
}

void GenerationResponse::echo_prompt(size_t prompt, Choice& choice) {
  choice.echo_done = true;
  if (!spec_.echo) return;
  choice.text += spec_.prompts[prompt].text;
  if (!spec_.logprobs) return;
  choice.logprobs = echoed_tokens(engine_, spec_.prompts[prompt], prompts_[prompt].logprobs);
}

void GenerationResponse::take_delta(size_t prompt, CompletionDelta&& delta, std::string& stream) {
  const auto n = static_cast<size_t>(std::max(1, spec_.sampling.n));
  if (delta.index < 0 || static_cast<size_t>(delta.index) >= n) return;
  const size_t index = prompt * n + static_cast<size_t>(delta.index);
  Choice& choice = choices_[index];
  if (choice.finish_reason != FinishReason::kNone) return;
  if (!choice.echo_done) echo_prompt(prompt, choice);
  if (spec_.reading && choice.output == nullptr)
    choice.output = std::make_unique<ChatOutput>(*spec_.reading, salt_ + index * 0xa0761d6478bd642f);
  if (choice.output == nullptr) choice.text += delta.text;
  choice.num_tokens += static_cast<int64_t>(delta.token_ids.size());
  choice.token_ids.insert(choice.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
  if (spec_.logprobs) {
    for (PositionLogprobs& p : delta.logprobs) {
      const int64_t num_characters =
          count_characters(engine_, p.chosen.token, spec_.sampling.skip_special_tokens);
      choice.logprobs.push_back({std::move(p), true, num_characters});
    }
  }
  choice.finish_reason = delta.finish_reason;
  choice.stop_reason = std::move(delta.stop_reason);
  if (choice.output != nullptr) return read_chat(index, choice, delta, stream);
  if (!spec_.stream) return;
  // Tokens without text yet wait for it, unless the client asked for the tokens.
  const bool tokens_matter =
      (spec_.return_token_ids || !engine_.has_tokenizer()) && !choice.token_ids.empty();
  if (choice.text.empty() && choice.finish_reason == FinishReason::kNone && !tokens_matter) return;
  write_chunk(stream, index, choice, {.text = choice.text, .token_ids = choice.token_ids});
  choice.text.clear();
  choice.token_ids.clear();
}

void GenerationResponse::read_chat(size_t index, Choice& choice, const CompletionDelta& delta,
                                   std::string& stream) {
  std::vector<OutputEvent> streamed;
  choice.output->push(delta, spec_.stream ? streamed : choice.events);
  if (choice.output->done() && choice.finish_reason == FinishReason::kNone)
    choice.finish_reason = FinishReason::kStop;
  if (!spec_.stream) return;
  std::erase_if(streamed, [](const OutputEvent& e) { return e.type == OutputEventType::kCallEnd; });
  const bool finished = choice.finish_reason != FinishReason::kNone;
  const bool tokens_matter = spec_.return_token_ids && !choice.token_ids.empty();
  if (streamed.empty() && (finished || tokens_matter))
    write_chunk(stream, index, choice, {.token_ids = choice.token_ids});
  for (size_t i = 0; i < streamed.size(); ++i) {
    const std::span<const TokenId> ids =
        i == 0 ? std::span<const TokenId>(choice.token_ids) : std::span<const TokenId>();
    write_chunk(stream, index, choice,
                {.event = &streamed[i], .token_ids = ids, .last = i + 1 == streamed.size()});
  }
  if (!streamed.empty() || finished || tokens_matter) choice.token_ids.clear();
}

std::string_view GenerationResponse::finish_name(const Choice& choice) const {
  const bool called =
      choice.finish_reason == FinishReason::kStop && choice.output != nullptr && choice.output->has_called();
  return called ? call_finish_reason(spec_.reading->old_form) : finish_reason_name(choice.finish_reason);
}

void GenerationResponse::fail(const Failure& failure, Reply& reply) {
  if (closed_.load()) return;
  abort_all();
  if (!streaming_) {
    reply.response = error_response(failure);
    return;
  }
  reply.stream += cat("data: ", error_body(failure), "\n\ndata: [DONE]\n\n");
  reply.end_stream = true;
  reply.status = http_status(failure.kind);
  reply.remark = failure.message;
}

void GenerationResponse::finish(Reply& reply) {
  closed_.store(true);
  if (!spec_.stream) {
    reply.response = head();
    reply.response->remark = remark();
    reply.response->body = whole_response();
    return;
  }
  if (spec_.include_usage) write_usage_chunk(reply.stream);
  reply.stream += "data: [DONE]\n\n";
  reply.end_stream = true;
  reply.remark = remark();
}

HttpResponse GenerationResponse::head() const {
  HttpResponse response;
  if (!spec_.ignored_params.empty())
    response.headers.add("X-Ignored-Params", ignored_header(spec_.ignored_params));
  return response;
}

void GenerationResponse::begin_stream() {
  HttpResponse response = head();
  response.content_type = "text/event-stream; charset=utf-8";
  response.headers.add("Cache-Control", "no-cache");
  response.headers.add("X-Accel-Buffering", "no");
  writer_->begin_stream(std::move(response));
  streaming_ = true;
  if (settings_.keep_alive_s > 0.0) {
    // Without an empty line, which simple clients take for the end of an event.
    writer_->on_silence(settings_.keep_alive_s,
                        [self = shared_from_this()] { self->writer_->write(": keep-alive\n"); });
  }
  if (!spec_.chat) return;
  std::string stream;
  for (size_t i = 0; i < choices_.size(); ++i)
    write_chunk(stream, i, choices_[i], {.role = true, .text = spec_.echoed_message});
  writer_->write(stream);
}

Usage GenerationResponse::usage() const {
  Usage usage;
  for (const Prompt& prompt : prompts_) {
    usage.prompt_tokens += prompt.num_tokens;
    usage.cached_tokens += prompt.cached_tokens;
  }
  for (const Choice& choice : choices_) {
    usage.completion_tokens += choice.num_tokens;
    if (choice.output == nullptr || spec_.reading->parser.reasoning == nullptr) continue;
    usage.reasoning_tokens = usage.reasoning_tokens.value_or(0) + choice.output->num_reasoning_tokens();
  }
  return usage;
}

// From the earliest arrival to the last token of all prompts, on the engine's clock: a client cannot tell the
// engine's time from that of the connection.
void GenerationResponse::write_timings(JsonOut& out) const {
  RequestTimes whole;
  const auto earliest = [](double& a, double b) {
    if (b != 0.0 && (a == 0.0 || b < a)) a = b;
  };
  for (const Prompt& prompt : prompts_) {
    earliest(whole.arrival, prompt.times.arrival);
    earliest(whole.scheduled, prompt.times.scheduled);
    earliest(whole.first_token, prompt.times.first_token);
    whole.last_token = std::max(whole.last_token, prompt.times.last_token);
  }
  const auto span = [&](std::string_view key, double begin, double end) {
    out.key(key);
    begin == 0.0 || end == 0.0 ? out.null() : out.number(1e3 * (end - begin));
  };
  out.begin_object();
  span("queue_ms", whole.arrival, whole.scheduled);
  span("prefill_ms", whole.scheduled, whole.first_token);
  span("decode_ms", whole.first_token, whole.last_token);
  out.end_object();
}

void GenerationResponse::write_head(JsonOut& out, std::string_view object) const {
  out.key("id").string(spec_.id).key("object").string(object);
  out.key("created").integer(spec_.created).key("model").string(spec_.model);
  out.key("system_fingerprint").string(settings_.fingerprint);
}

void GenerationResponse::write_chunk_logprobs(JsonOut& out, Choice& choice) const {
  out.key("logprobs");
  if (!spec_.logprobs || choice.logprobs.empty()) {
    out.null();
  } else if (spec_.chat) {
    std::vector<PositionLogprobs> positions;
    for (CompletionToken& t : choice.logprobs) positions.push_back(std::move(t.position));
    write_chat_logprobs(out, engine_, positions, spec_);
  } else {
    write_completion_logprobs(out, engine_, choice.logprobs, spec_, choice.text_offset);
  }
  choice.logprobs.clear();
}

void GenerationResponse::write_chunk(std::string& stream, size_t index, Choice& choice, const Chunk& chunk) {
  stream += "data: ";
  JsonOut out(stream);
  out.begin_object();
  write_head(out, spec_.chat ? "chat.completion.chunk" : "text_completion");
  if (spec_.return_token_ids && spec_.chat && chunk.role) {
    out.key("prompt_token_ids");
    write_token_ids(out, spec_.prompts.front().ids);
  }
  out.key("choices").begin_array().begin_object().key("index").integer(index);
  if (spec_.chat) {
    out.key("delta").begin_object();
    if (chunk.role) out.key("role").string("assistant");
    if (chunk.event != nullptr) {
      write_event(out, *chunk.event, spec_.reading->old_form);
    } else if (chunk.role || !chunk.text.empty()) {
      out.key("content").string(chunk.text);
    }
    out.end_object();
  } else {
    out.key("text").string(chunk.text);
  }
  write_chunk_logprobs(out, choice);
  const bool finished = chunk.last && choice.finish_reason != FinishReason::kNone;
  out.key("finish_reason").string_or_null(finished ? finish_name(choice) : "");
  if (finished) {
    out.key("stop_reason");
    write_stop_reason(out, choice.stop_reason);
  }
  if (spec_.return_token_ids && !chunk.role) {
    if (!spec_.chat && !choice.begun) {
      out.key("prompt_token_ids");
      write_token_ids(out, spec_.prompts[index / static_cast<size_t>(std::max(1, spec_.sampling.n))].ids);
    }
    out.key("token_ids");
    write_token_ids(out, chunk.token_ids);
  }
  choice.begun = choice.begun || !chunk.role;
  out.end_object().end_array();
  if (spec_.continuous_usage) {
    out.key("usage");
    write_usage(out, usage());
  } else if (spec_.include_usage) {
    out.key("usage").null();
  }
  out.end_object();
  stream += "\n\n";
}

void GenerationResponse::write_usage_chunk(std::string& stream) const {
  stream += "data: ";
  JsonOut out(stream);
  out.begin_object();
  write_head(out, spec_.chat ? "chat.completion.chunk" : "text_completion");
  out.key("choices").begin_array().end_array().key("usage");
  write_usage(out, usage());
  if (spec_.include_timings) {
    out.key("timings");
    write_timings(out);
  }
  out.end_object();
  stream += "\n\n";
}

void GenerationResponse::write_prompt_scores(JsonOut& out, const Prompt& prompt) const {
  out.key("prompt_logprobs");
  if (spec_.prompt_logprobs) {
    write_prompt_logprobs(out, engine_, prompt.logprobs, *spec_.prompt_logprobs);
  } else {
    out.null();
  }
}

void GenerationResponse::write_whole_choice(JsonOut& out, size_t index, Choice& choice) {
  const size_t prompt = index / static_cast<size_t>(std::max(1, spec_.sampling.n));
  out.begin_object().key("index").integer(index);
  if (spec_.chat) {
    out.key("message").begin_object().key("role").string("assistant");
    if (choice.output != nullptr) {
      if (!spec_.echoed_message.empty())
        choice.events.insert(choice.events.begin(),
                             {.type = OutputEventType::kText, .text = spec_.echoed_message});
      write_message_fields(out, choice.events, spec_.reading->old_form);
    } else {
      out.key("content").string(spec_.echoed_message + choice.text).key("refusal").null();
    }
    out.end_object();
  } else {
    out.key("text").string(choice.text);
  }
  write_chunk_logprobs(out, choice);
  out.key("finish_reason").string_or_null(finish_name(choice)).key("stop_reason");
  write_stop_reason(out, choice.stop_reason);
  if (spec_.return_token_ids) {
    out.key("token_ids");
    write_token_ids(out, choice.token_ids);
  }
  if (!spec_.chat) {
    if (spec_.return_token_ids) {
      out.key("prompt_token_ids");
      write_token_ids(out, spec_.prompts[prompt].ids);
    }
    write_prompt_scores(out, prompts_[prompt]);
  }
  out.end_object();
}

std::string GenerationResponse::whole_response() {
  std::string body;
  JsonOut out(body);
  out.begin_object();
  write_head(out, spec_.chat ? "chat.completion" : "text_completion");
  out.key("choices").begin_array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (choices_[i].finish_reason != FinishReason::kNone) write_whole_choice(out, i, choices_[i]);
  }
  out.end_array().key("usage");
  write_usage(out, usage());
  if (spec_.chat && spec_.return_token_ids) {
    out.key("prompt_token_ids");
    write_token_ids(out, spec_.prompts.front().ids);
  }
  if (spec_.chat) write_prompt_scores(out, prompts_.front());
  out.end_object();
  return body;
}

}  // namespace quire
