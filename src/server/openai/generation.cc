#include "server/openai/generation.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "server/openai/errors.h"

namespace quire {
Generation::Generation(ServingEngine& engine, GenerationSpec spec, std::shared_ptr<ResponseWriter> writer,
                       GenerationSettings settings)
    : engine_(engine), spec_(std::move(spec)), writer_(std::move(writer)), settings_(std::move(settings)) {
  prompts_.resize(spec_.prompts.size());
  num_unfinished_ = prompts_.size();
}

void Generation::start() {
  const auto self = shared_from_this();
  for (size_t i = 0; i < prompts_.size(); ++i) {
    GenerateRequest request;
    request.prompt_token_ids = spec_.prompts[i].ids;
    request.sampling = spec_.sampling;
    request.sampling.max_tokens = spec_.prompts[i].max_tokens;
    request.priority = spec_.priority;
    request.client = spec_.client;
    request.cache_salt = spec_.cache_salt;
    auto id = engine_.submit(std::move(request),
                             [self, i](RequestOutput&& output) { self->receive(i, std::move(output)); });
    if (!id.ok()) {
      std::string none;
      return fail(id.failure(), none);
    }
    prompts_[i].request = id.value();
  }
  // Only now is n known to be reasonable.
  choices_.resize(prompts_.size() * static_cast<size_t>(std::max(1, spec_.sampling.n)));
  writer_->on_gone([self] {
    self->abort_all();
    self->log_end("; the client went");
  });
  if (spec_.stream && !closed_) begin_stream();
}

void Generation::log_end(std::string_view how) const {
  if (!settings_.log_requests) return;
  const Usage u = usage();
  log_info(spec_.id, ": ", u.prompt_tokens, " prompt tokens (", u.cached_tokens, " cached), ",
           u.completion_tokens, " generated, ", fixed(monotonic_seconds() - begin_, 3), " s", how);
}

void Generation::abort_all() {
  closed_ = true;
  deaf_.store(true, std::memory_order_relaxed);
  for (const Prompt& prompt : prompts_) {
    if (prompt.request >= 0 && !prompt.finished) engine_.abort(prompt.request);
  }
}

void Generation::receive(size_t prompt, RequestOutput&& output) {
  if (deaf_.load(std::memory_order_relaxed)) return;
  bool ring = false;
  {
    const std::lock_guard lock(mutex_);
    mailbox_.push_back({prompt, std::move(output)});
    ring = !awaited_;
    awaited_ = true;
  }
  if (ring) writer_->post([self = shared_from_this()] { self->open_mailbox(); });
}

void Generation::open_mailbox() {
  std::vector<Letter> letters;
  {
    const std::lock_guard lock(mutex_);
    letters.swap(mailbox_);
    awaited_ = false;
  }
  std::string stream;
  for (Letter& letter : letters) {
    if (closed_) break;
    take(letter.prompt, std::move(letter.output), stream);
  }
  if (!closed_ && num_unfinished_ == 0) return finish(stream);
  if (!closed_ && spec_.stream) writer_->write(stream);
}

void Generation::take(size_t index, RequestOutput&& output, std::string& stream) {
  Prompt& prompt = prompts_[index];
  if (output.failure) {
    prompt.finished = true;
    return fail(*output.failure, stream);
  }
  prompt.cached_tokens = std::max<int64_t>(prompt.cached_tokens, output.num_cached_tokens);
  if (!output.prompt_logprobs.empty()) prompt.logprobs = std::move(output.prompt_logprobs);
  for (CompletionDelta& delta : output.outputs) take_delta(index, std::move(delta), stream);
  if (!output.finished || prompt.finished) return;
  // A prompt that was only scored generates nothing, and its samples still have to end. A beam search may
  // find fewer texts than n: the others are no choices.
  const int32_t n = spec_.sampling.use_beam_search ? 0 : std::max(1, spec_.sampling.n);
  for (int32_t i = 0; i < n; ++i) {
    if (choices_[index * static_cast<size_t>(n) + static_cast<size_t>(i)].finish_reason !=
        FinishReason::kNone)
      continue;
    CompletionDelta end;
    end.index = i;
    end.finish_reason = spec_.prompts[index].max_tokens == 0 ? FinishReason::kLength : FinishReason::kAbort;
    take_delta(index, std::move(end), stream);
  }
  prompt.finished = true;
  --num_unfinished_;
}

void Generation::echo_prompt(size_t prompt, Choice& choice) {
  choice.echo_done = true;
  if (!spec_.echo) return;
  choice.text += spec_.prompts[prompt].text;
  if (!spec_.logprobs) return;
  choice.logprobs = echoed_tokens(spec_.prompts[prompt].ids, prompts_[prompt].logprobs);
}

void Generation::take_delta(size_t prompt, CompletionDelta&& delta, std::string& stream) {
  const auto n = static_cast<size_t>(std::max(1, spec_.sampling.n));
  if (delta.index < 0 || static_cast<size_t>(delta.index) >= n) return;
  const size_t index = prompt * n + static_cast<size_t>(delta.index);
  Choice& choice = choices_[index];
  if (choice.finish_reason != FinishReason::kNone) return;
  if (!choice.echo_done) echo_prompt(prompt, choice);
  choice.text += delta.text;
  choice.num_tokens += static_cast<int64_t>(delta.token_ids.size());
  choice.token_ids.insert(choice.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
  if (spec_.logprobs) {
    for (PositionLogprobs& p : delta.logprobs) choice.logprobs.push_back({std::move(p), true});
  }
  choice.finish_reason = delta.finish_reason;
  choice.stop_reason = std::move(delta.stop_reason);
  if (!spec_.stream) return;
  // Tokens whose text is held back wait for it, unless the client follows the tokens themselves.
  const bool tokens_matter =
      (spec_.return_token_ids || !engine_.has_tokenizer()) && !choice.token_ids.empty();
  if (choice.text.empty() && choice.finish_reason == FinishReason::kNone && !tokens_matter) return;
  write_chunk(stream, index, choice, false, choice.text, choice.token_ids);
  choice.text.clear();
  choice.token_ids.clear();
}

void Generation::fail(const Failure& failure, std::string& stream) {
  if (closed_) return;
  abort_all();
  if (!choices_.empty()) log_end(cat("; failed: ", failure.message));
  // choices_ exist from the moment on at which a stream begins.
  if (!spec_.stream || choices_.empty()) return writer_->send(error_response(failure));
  stream += cat("data: ", error_body(failure), "\n\ndata: [DONE]\n\n");
  writer_->write(stream);
  writer_->end();
}

void Generation::finish(std::string& stream) {
  closed_ = true;
  deaf_.store(true, std::memory_order_relaxed);
  log_end("");
  if (!spec_.stream) {
    HttpResponse response = head();
    response.body = whole_answer();
    return writer_->send(std::move(response));
  }
  if (spec_.include_usage) write_usage_chunk(stream);
  stream += "data: [DONE]\n\n";
  writer_->write(stream);
  writer_->end();
}

HttpResponse Generation::head() const {
  HttpResponse response;
  if (!spec_.ignored_params.empty())
    response.headers.add("X-Ignored-Params", ignored_header(spec_.ignored_params));
  return response;
}

void Generation::begin_stream() {
  HttpResponse response = head();
  response.content_type = "text/event-stream; charset=utf-8";
  response.headers.add("Cache-Control", "no-cache");
  response.headers.add("X-Accel-Buffering", "no");
  writer_->begin_stream(std::move(response));
  writer_->on_silence(settings_.keep_alive_s,
                      [self = shared_from_this()] { self->writer_->write(": keep-alive\n\n"); });
  if (!spec_.chat) return;
  std::string stream;
  for (size_t i = 0; i < choices_.size(); ++i) write_chunk(stream, i, choices_[i], true, "", {});
  writer_->write(stream);
}

Usage Generation::usage() const {
  Usage usage;
  for (size_t i = 0; i < prompts_.size(); ++i) {
    usage.prompt_tokens += static_cast<int64_t>(spec_.prompts[i].ids.size());
    usage.cached_tokens += prompts_[i].cached_tokens;
  }
  for (const Choice& choice : choices_) usage.completion_tokens += choice.num_tokens;
  return usage;
}

void Generation::write_head(JsonOut& out, std::string_view object) const {
  out.key("id").string(spec_.id).key("object").string(object);
  out.key("created").integer(spec_.created).key("model").string(spec_.model);
  out.key("system_fingerprint").string(settings_.fingerprint);
}

void Generation::write_chunk_logprobs(JsonOut& out, Choice& choice) const {
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

void Generation::write_chunk(std::string& stream, size_t index, Choice& choice, bool role,
                             std::string_view text, std::span<const TokenId> token_ids) {
  stream += "data: ";
  JsonOut out(stream);
  out.begin_object();
  write_head(out, spec_.chat ? "chat.completion.chunk" : "text_completion");
  if (spec_.return_token_ids && spec_.chat && role) {
    out.key("prompt_token_ids");
    write_token_ids(out, spec_.prompts.front().ids);
  }
  out.key("choices").begin_array().begin_object().key("index").integer(index);
  if (spec_.chat) {
    out.key("delta").begin_object();
    if (role) out.key("role").string("assistant");
    if (role || !text.empty()) out.key("content").string(text);
    out.end_object();
  } else {
    out.key("text").string(text);
  }
  write_chunk_logprobs(out, choice);
  const bool finished = choice.finish_reason != FinishReason::kNone;
  out.key("finish_reason").string_or_null(finish_reason_name(choice.finish_reason));
  if (finished) {
    out.key("stop_reason");
    write_stop_reason(out, choice.stop_reason);
  }
  if (spec_.return_token_ids && !role) {
    if (!spec_.chat && !choice.begun) {
      out.key("prompt_token_ids");
      write_token_ids(out, spec_.prompts[index / static_cast<size_t>(std::max(1, spec_.sampling.n))].ids);
    }
    out.key("token_ids");
    write_token_ids(out, token_ids);
  }
  choice.begun = choice.begun || !role;
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

void Generation::write_usage_chunk(std::string& stream) const {
  stream += "data: ";
  JsonOut out(stream);
  out.begin_object();
  write_head(out, spec_.chat ? "chat.completion.chunk" : "text_completion");
  out.key("choices").begin_array().end_array().key("usage");
  write_usage(out, usage());
  out.end_object();
  stream += "\n\n";
}

void Generation::write_whole_choice(JsonOut& out, size_t index, Choice& choice) {
  const size_t prompt = index / static_cast<size_t>(std::max(1, spec_.sampling.n));
  out.begin_object().key("index").integer(index);
  if (spec_.chat) {
    out.key("message").begin_object().key("role").string("assistant").key("content").string(choice.text);
    out.key("refusal").null().end_object();
  } else {
    out.key("text").string(choice.text);
  }
  write_chunk_logprobs(out, choice);
  out.key("finish_reason").string_or_null(finish_reason_name(choice.finish_reason)).key("stop_reason");
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
    if (spec_.prompt_logprobs) {
      out.key("prompt_logprobs");
      write_prompt_logprobs(out, engine_, prompts_[prompt].logprobs, *spec_.prompt_logprobs);
    }
  }
  out.end_object();
}

std::string Generation::whole_answer() {
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
  if (spec_.chat && spec_.prompt_logprobs) {
    out.key("prompt_logprobs");
    write_prompt_logprobs(out, engine_, prompts_.front().logprobs, *spec_.prompt_logprobs);
  }
  out.end_object();
  return body;
}

}  // namespace quire
