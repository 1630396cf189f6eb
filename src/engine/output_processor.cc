#include "engine/output_processor.h"

#include <algorithm>

namespace quire {
namespace {

// Number of last prompt tokens that the detokenizer needs to space the first generated token.
constexpr size_t kDetokenizerContext = 32;

constexpr const char* kRepetitionStop = "repetition_detected";  // the stop reason of vLLM

std::span<const TokenId> tail(std::span<const TokenId> ids, size_t count) {
  return ids.size() <= count ? ids : ids.last(count);
}

}  // namespace

void send_failure(const OutputSink& sink, RequestId id, const Failure& failure) noexcept {
  for (const bool with_message : {true, false}) {
    try {
      RequestOutput output;
      output.request = id;
      output.finished = true;
      output.failure.emplace().kind = failure.kind;
      if (with_message) output.failure->message = failure.message;
      sink(std::move(output));
      return;
    } catch (...) {  // tried again without the message; a sink that cannot take that either is left alone
    }
  }
}

OutputProcessor::OutputProcessor(const Tokenizer* tokenizer, const std::vector<TokenId>& end_token_ids,
                                 EngineMetrics& metrics, std::atomic<int32_t>& num_unstarted)
    : tokenizer_(tokenizer),
      end_token_ids_(end_token_ids),
      metrics_(metrics),
      num_unstarted_(num_unstarted) {}

void OutputProcessor::add(const Request& request, OutputSink&& sink) {
  const SharedSamplingParams& params = request.sampling;
  Record record;
  record.params = params;
  record.markers = request.markers;
  record.adapter = request.adapter_name;
  record.times.arrival = request.arrival;
  record.num_prompt_tokens = static_cast<int32_t>(request.prompt_token_ids.size());
  for (int32_t i = 0; i < params->n; ++i) {
    Sample& sample =
        record.samples.emplace_back(Sample{.detokenizer = std::nullopt,
                                           .stop_checker = StopChecker(params.share(&SamplingParams::stop),
                                                                       params->include_stop_str_in_output)});
    if (tokenizer_ != nullptr) {
      sample.detokenizer.emplace(*tokenizer_, params->skip_special_tokens,
                                 params->spaces_between_special_tokens);
      sample.detokenizer->seed(tail(request.prompt_token_ids, kDetokenizerContext));
    }
  }
  adapters_.arrived(record.adapter);
  // The sink moves last, after everything that can throw.
  requests_.insert_or_assign(request.id, std::move(record)).first->second.sink = std::move(sink);
}

void OutputProcessor::mark_started(RequestId id, int32_t num_cached_tokens, double now) {
  const auto it = requests_.find(id);
  if (it == requests_.end()) return;
  it->second.started = true;
  adapters_.started(it->second.adapter);
  num_unstarted_.fetch_sub(1, std::memory_order_relaxed);
  it->second.times.scheduled = now;
  it->second.num_cached_tokens = num_cached_tokens;
  metrics_.prompt_tokens.add(it->second.num_prompt_tokens);
  metrics_.prompt_tokens_cached.add(num_cached_tokens);
}

bool OutputProcessor::apply(const SequenceUpdate& update, double now) {
  const auto it = requests_.find(update.request);
  if (it == requests_.end()) return false;
  Record& request = it->second;
  if (update.prompt_logprobs != nullptr) take_prompt_logprobs(request, *update.prompt_logprobs);
  if (update.finish_reason == FinishReason::kError) {
    end(update.request, FinishReason::kError, Failure{ErrorKind::kInternal, update.error, ""}, now);
    return false;
  }
  if (request.params->use_beam_search) {
    // Only the finished search is reported.
    if (update.beam == nullptr) return false;
    note_output(update.request, request);
    take_beams(request, *update.beam, now);
    return false;
  }
  Sample& sample = request.samples[static_cast<size_t>(update.index)];
  if (sample.finished) return false;
  if (update.sampled.empty() && update.finish_reason == FinishReason::kNone) return false;
  note_output(update.request, request);
  if (update.pooled != nullptr) {
    request.pending.pooled = update.pooled->values;
    request.times.last_token = now;
  }
  CompletionDelta& delta = delta_of(request, update.index);
  observe_tokens(request, update.sampled.size(), now);
  const bool stopped = append_tokens(request, sample, delta, update);
  if (stopped) {
    finish_sample(request, sample, delta, FinishReason::kStop);
  } else if (update.finish_reason != FinishReason::kNone) {
    if (update.stop_token) delta.stop_reason = *update.stop_token;
    finish_sample(request, sample, delta, update.finish_reason);
    if (update.finish_reason == FinishReason::kRepetition) delta.stop_reason = std::string(kRepetitionStop);
  }
  return stopped && update.finish_reason == FinishReason::kNone;
}

void OutputProcessor::note_output(RequestId id, Record& request) {
  if (request.has_output) return;
  request.has_output = true;
  with_output_.push_back(id);
}

void OutputProcessor::take_beams(Record& request, const BeamResult& result, double now) {
  size_t num_tokens = 0;
  for (size_t i = 0; i < std::min(result.hypotheses.size(), request.samples.size()); ++i) {
    take_hypothesis(request, static_cast<int32_t>(i), result.hypotheses[i]);
    num_tokens += result.hypotheses[i].token_ids.size();
  }
  observe_tokens(request, num_tokens, now);
  // The search may have found fewer than n hypotheses; the other samples have no output.
  for (Sample& sample : request.samples) {
    if (!sample.finished) ++request.num_finished;
    sample.finished = true;
  }
}

void OutputProcessor::take_hypothesis(Record& request, int32_t index, const BeamHypothesis& hypothesis) {
  Sample& sample = request.samples[static_cast<size_t>(index)];
  CompletionDelta& delta = delta_of(request, index);
  const std::vector<TokenId>& tokens = hypothesis.token_ids;
  delta.token_ids = tokens;
  delta.logprobs = hypothesis.positions;
  for (const float logprob : hypothesis.logprobs) sample.cumulative_logprob += logprob;
  delta.cumulative_logprob = sample.cumulative_logprob;
  sample.num_tokens = static_cast<int32_t>(tokens.size());
  const bool hides_last = hypothesis.stopped && !request.params->include_stop_str_in_output;
  const size_t num_shown = tokens.size() - (hides_last ? 1 : 0);
  for (size_t i = 0; i < tokens.size() && sample.detokenizer; ++i)
    add_text(sample, delta, decode(request, sample, tokens[i], i >= num_shown));
  if (hypothesis.stopped) {
    const auto contains = [&](const std::vector<TokenId>& ids) {
      return std::find(ids.begin(), ids.end(), tokens.back()) != ids.end();
    };
    const bool is_end = !request.params->ignore_eos && contains(end_token_ids_);
    if (!is_end && contains(request.params->stop_token_ids)) delta.stop_reason = tokens.back();
  }
  finish_sample(request, sample, delta, hypothesis.stopped ? FinishReason::kStop : FinishReason::kLength);
}

CompletionDelta& OutputProcessor::delta_of(Record& request, int32_t index) {
  for (auto& delta : request.pending.outputs) {
    if (delta.index == index) return delta;
  }
  CompletionDelta& delta = request.pending.outputs.emplace_back();
  delta.index = index;
  return delta;
}

// Whether a token that ends a sequence belongs to its text: the last one of a complete constrained output.
bool OutputProcessor::is_text(const SequenceUpdate& update, const SampledToken& last) const {
  return last.completes && !update.stop_token &&
         std::find(end_token_ids_.begin(), end_token_ids_.end(), last.token) == end_token_ids_.end();
}

std::string OutputProcessor::decode(const Record& request, Sample& sample, TokenId token, bool hidden) const {
  std::string piece = hidden ? std::string() : sample.detokenizer->push(token);
  sample.decoded += piece.size();
  if (request.markers != nullptr &&
      std::binary_search(request.markers->begin(), request.markers->end(), token)) {
    // A character that was not complete may come out with the token, before its own text.
    const std::string own = tokenizer_->token_bytes(token);
    const size_t size = piece.ends_with(own) ? std::min(own.size(), piece.size()) : piece.size();
    sample.waiting.push_back({sample.decoded - size, size, token});
  }
  return piece;
}

void OutputProcessor::add_text(Sample& sample, CompletionDelta& delta, std::string_view text) {
  delta.text += text;
  sample.delivered += text.size();
  const size_t begin = sample.delivered - delta.text.size();  // where the delta begins
  const auto complete = [&](const TextMarker& m) { return m.offset + m.size <= sample.delivered; };
  const auto end = std::find_if_not(sample.waiting.begin(), sample.waiting.end(), complete);
  for (auto it = sample.waiting.begin(); it != end; ++it)
    delta.markers.push_back({it->offset - begin, it->size, it->token});
  sample.waiting.erase(sample.waiting.begin(), end);
}

bool OutputProcessor::append_tokens(Record& request, Sample& sample, CompletionDelta& delta,
                                    const SequenceUpdate& update) {
  const bool several = update.sampled.size() > 1 || !delta.text_ends.empty();
  if (several) delta.text_ends.resize(delta.token_ids.size(), delta.text.size());
  for (size_t i = 0; i < update.sampled.size(); ++i) {
    const SampledToken& token = update.sampled[i];
    delta.token_ids.push_back(token.token);
    delta.logprobs.insert(delta.logprobs.end(), token.logprobs.begin(), token.logprobs.end());
    sample.cumulative_logprob += token.logprob;
    ++sample.num_tokens;
    // The stop token is not part of the text, unless the request includes it.
    const bool is_last = update.finish_reason == FinishReason::kStop && i + 1 == update.sampled.size();
    const bool ends_text = is_last && !is_text(update, token) && !request.params->include_stop_str_in_output;
    if (!sample.detokenizer) continue;
    const std::string piece = decode(request, sample, token.token, ends_text);
    StopChecker::Step step;
    if (!ends_text) {
      step = sample.stop_checker.append(piece, sample.num_tokens > request.params->min_tokens);
      add_text(sample, delta, step.text);
    }
    if (several) delta.text_ends.push_back(delta.text.size());
    if (step.match) {
      delta.stop_reason = std::move(*step.match);
      delta.cumulative_logprob = sample.cumulative_logprob;
      return true;
    }
  }
  delta.cumulative_logprob = sample.cumulative_logprob;
  return false;
}

void OutputProcessor::take_prompt_logprobs(Record& request, const PromptLogprobs& chunk) {
  // A preempted prompt is computed again; positions that were reported before are skipped.
  const size_t known = request.prompt_logprobs.size();
  const auto first = static_cast<size_t>(chunk.first_position - 1);
  for (size_t i = known > first ? known - first : 0; i < chunk.positions.size(); ++i) {
    request.prompt_logprobs.push_back(chunk.positions[i]);
  }
}

void OutputProcessor::finish_sample(Record& request, Sample& sample, CompletionDelta& delta,
                                    FinishReason reason) {
  const bool matched_stop_string = std::holds_alternative<std::string>(delta.stop_reason);
  if (sample.detokenizer && !matched_stop_string) {
    const std::string rest = sample.detokenizer->flush();
    auto step = sample.stop_checker.append(rest, false);
    add_text(sample, delta, step.text + sample.stop_checker.flush());
  }
  delta.finish_reason = reason;
  sample.finished = true;
  ++request.num_finished;
  metrics_.observe_finished_sample(reason, sample.num_tokens);
}

void OutputProcessor::observe_tokens(Record& request, size_t num_new_tokens, double now) {
  if (num_new_tokens == 0) return;
  iteration_tokens_ += static_cast<int64_t>(num_new_tokens);
  if (request.times.first_token == 0.0) {
    iteration_tokens_ += request.num_prompt_tokens;
    request.times.first_token = now;
    metrics_.time_to_first_token.observe(now - request.times.arrival);
  } else if (now > request.times.last_token) {
    metrics_.inter_token_latency.observe(now - request.times.last_token);
  }
  request.times.last_token = now;
  metrics_.generation_tokens.add(static_cast<double>(num_new_tokens));
}

void OutputProcessor::deliver() {
  for (const RequestId id : with_output_) {
    const auto it = requests_.find(id);
    if (it == requests_.end()) continue;
    const bool finished = it->second.num_finished == it->second.params->n;
    if (finished) {
      // Before the output is sent, so that a client that has it finds it in the metrics.
      int64_t num_generated = 0;
      for (const auto& sample : it->second.samples) num_generated += sample.num_tokens;
      metrics_.observe_finished_request(it->second.times, it->second.num_prompt_tokens, num_generated,
                                        *it->second.params);
    }
    if (finished) {
      const auto& outputs = it->second.pending.outputs;
      note_end(id, it->second, outputs.empty() ? FinishReason::kStop : outputs.back().finish_reason);
    }
    send(id, it->second);
    if (finished) remove(it);
  }
  with_output_.clear();
}

void OutputProcessor::send(RequestId id, Record& request) {
  RequestOutput output = std::move(request.pending);
  request.pending = RequestOutput{};
  request.has_output = false;
  output.request = id;
  output.num_prompt_tokens = request.num_prompt_tokens;
  output.num_cached_tokens = request.num_cached_tokens;
  output.times = request.times;
  output.finished = request.num_finished == request.params->n;
  if (!request.prompt_logprobs_sent) {
    output.prompt_logprobs = std::move(request.prompt_logprobs);
    request.prompt_logprobs_sent = true;
  }
  request.sink(std::move(output));
}

void OutputProcessor::end(RequestId id, FinishReason reason, std::optional<Failure> failure, double now) {
  const auto it = requests_.find(id);
  if (it == requests_.end()) return;
  Record& request = it->second;
  if (!request.started) num_unstarted_.fetch_sub(1, std::memory_order_relaxed);
  for (size_t i = 0; i < request.samples.size(); ++i) {
    Sample& sample = request.samples[i];
    if (sample.finished) continue;
    finish_sample(request, sample, delta_of(request, static_cast<int32_t>(i)), reason);
  }
  if (request.times.last_token == 0.0) request.times.last_token = now;
  note_end(id, request, reason);
  request.pending.failure = std::move(failure);
  send(id, request);
  remove(it);
}

void OutputProcessor::remove(std::unordered_map<RequestId, Record>::iterator it) {
  adapters_.ended(it->second.adapter, it->second.started);
  requests_.erase(it);
}

RequestProgress OutputProcessor::progress_of(const Record& request) {
  int64_t num_generated = 0;
  for (const Sample& sample : request.samples) num_generated += sample.num_tokens;
  return {request.times, request.num_prompt_tokens, request.num_cached_tokens, num_generated};
}

RequestProgress OutputProcessor::progress(RequestId request) const {
  const auto it = requests_.find(request);
  return it == requests_.end() ? RequestProgress{} : progress_of(it->second);
}

void OutputProcessor::note_end(RequestId id, const Record& request, FinishReason reason) {
  if (ended_ == nullptr) return;
  EndedRequest ended;
  ended.id = id;
  ended.reason = reason;
  ended.end = request.times.last_token;
  ended.progress = progress_of(request);
  ended_->push_back(std::move(ended));
}

std::vector<RequestId> OutputProcessor::requests() const {
  std::vector<RequestId> ids;
  for (const auto& [id, request] : requests_) ids.push_back(id);
  return ids;
}

void OutputProcessor::end_all(const Failure& failure, double now) noexcept {
  while (!requests_.empty()) {
    const RequestId id = requests_.begin()->first;
    try {
      end(id, FinishReason::kError, failure, now);
    } catch (...) {  // sent again below
    }
    const auto it = requests_.find(id);
    if (it == requests_.end()) continue;
    // Its outputs cannot be completed.
    send_failure(it->second.sink, id, failure);
    remove(it);
  }
}

}  // namespace quire
