#include "unit/server/fake_engine.h"

#include <algorithm>

#include "base/strings.h"
#include "base/yield_point.h"

namespace quire {
FakeEngine::FakeEngine() {
  info.name = "fake";
  info.path = "/models/fake";
  info.vocab_size = 258;
  info.max_model_len = 4096;
  thread_ = std::thread([this] { work(); });
}

FakeEngine::~FakeEngine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::vector<TokenId> FakeEngine::encode(std::string_view text, bool add_special_tokens,
                                        const YieldPoint& yield_point) const {
  if (tokenizer_blocked.load()) {
    ++num_encoding;
    while (!yield_point.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(cancel_time);
    --num_encoding;
  }
  yield_point.check();
  std::vector<TokenId> ids;
  if (add_special_tokens) ids.push_back(kBos);
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

std::string FakeEngine::decode(std::span<const TokenId> ids, bool, const YieldPoint&) const {
  std::string text;
  for (const TokenId id : ids) {
    if (id < 256) text += static_cast<char>(id);
  }
  return text;
}

Result<std::string> FakeEngine::render_chat(ChatRequest request) const {
  {
    const std::lock_guard lock(mutex_);
    last_chat_ = request;
  }
  std::string text;
  for (const Json& m : request.messages) {
    if (m["role"] == "refused") return invalid_argument("this role is refused by the template");
    const Json content = m.value("content", Json(""));
    text += cat(m["role"].get<std::string>(), ":",
                content.is_string() ? content.get<std::string>() : content.dump(), ";");
  }
  if (request.add_generation_prompt) text += "assistant:";
  text += prompt_end;
  return text;
}

std::string FakeEngine::continuation(std::string_view prompt, int index, int max_tokens) {
  std::string text;
  for (int i = 0; i < max_tokens; ++i)
    text += prompt[prompt.size() - 1 - static_cast<size_t>(i + index) % prompt.size()];
  return text;
}

Status FakeEngine::check(const Request& request) const {
  if (request.sampling->temperature < 0.0F || request.sampling->temperature > 2.0F)
    return invalid_argument("temperature must be between 0 and 2", "temperature");
  return {};
}

Result<RequestId> FakeEngine::submit(std::vector<Submission> requests) {
  const std::lock_guard lock(mutex_);
  if (throw_at_submit && num_submits_++ == *throw_at_submit) throw std::bad_alloc();
  for (const Submission& each : requests) {
    last_request_ = each.request;
    if (Status status = check(each.request); !status.ok()) return status.failure();
  }
  if (draining_ || static_cast<int>(active_.size() + requests.size()) > max_queued)
    return Failure{ErrorKind::kOverloaded, "the queue is full", ""};
  const RequestId first = next_;
  for (auto& [request, sink, adapter] : requests) {
    Active active;
    std::string prompt = decode(request.prompt_token_ids, false);
    if (prompt.empty()) prompt = "?";
    for (int i = 0; i < request.sampling->n; ++i) {
      active.texts.push_back(continuation(prompt, i, request.sampling->max_tokens) + extra_byte_pieces);
    }
    active.request = std::move(request);
    active.sink = std::move(sink);
    active_.emplace(next_++, std::move(active));
  }
  changed_.notify_all();
  return first;
}

void FakeEngine::abort(RequestId first, size_t count) {
  const std::lock_guard lock(mutex_);
  for (auto id = first; id < first + static_cast<RequestId>(count); ++id) {
    const auto it = active_.find(id);
    if (it == active_.end()) continue;
    it->second.aborted = true;
    num_aborted_.fetch_add(1);
  }
  changed_.notify_all();
}

bool FakeEngine::drain(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  const bool clean = changed_.wait_for(lock, timeout, [&] { return active_.empty(); });
  for (auto& [id, active] : active_) active.aborted = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return active_.empty(); });
  return clean;
}

void FakeEngine::hold() {
  const std::lock_guard lock(mutex_);
  held_ = true;
}

void FakeEngine::release() {
  const std::lock_guard lock(mutex_);
  held_ = false;
  changed_.notify_all();
}

int FakeEngine::num_active() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(active_.size());
}

Request FakeEngine::last_request() const {
  const std::lock_guard lock(mutex_);
  return last_request_;
}

std::vector<SharedSamplingParams> FakeEngine::active_sampling() const {
  const std::lock_guard lock(mutex_);
  std::vector<SharedSamplingParams> all;
  for (const auto& [id, active] : active_) all.push_back(active.request.sampling);
  return all;
}

ChatRequest FakeEngine::last_chat() const {
  const std::lock_guard lock(mutex_);
  return last_chat_;
}

PositionLogprobs FakeEngine::fake_logprobs(TokenId token, int top) {
  PositionLogprobs p;
  p.chosen = {token, -0.5F};
  p.rank = 1;
  for (int i = 0; i < top; ++i) p.top.push_back({(token + i) % 256, -0.5F - static_cast<float>(i)});
  return p;
}

std::vector<float> FakeEngine::pooled_vector(const Request& request) {
  return {static_cast<float>(request.prompt_token_ids.size()),
          static_cast<float>(request.prompt_token_ids.back()),
          static_cast<float>(request.pooling->second_text)};
}

// The next token of the answer in every sample. True when the request has ended.
bool FakeEngine::answer_step(RequestId id, Active& active) const {
  RequestOutput output;
  output.request = id;
  output.num_prompt_tokens = static_cast<int32_t>(active.request.prompt_token_ids.size());
  const auto rest = std::string_view(*answer).substr(static_cast<size_t>(active.done));
  CompletionDelta d;
  if (!active.aborted && !rest.empty()) {
    d.text = rest.substr(0, 1);
    d.token_ids = {static_cast<uint8_t>(rest[0])};
    for (const auto& [text, token] : markers) {
      if (!rest.starts_with(text) || spells_markers) continue;
      d.text = text;
      d.token_ids = {token};
      const auto& wanted = active.request.markers;
      if (wanted != nullptr && std::find(wanted->begin(), wanted->end(), token) != wanted->end())
        d.markers = {{0, text.size(), token}};
    }
  }
  active.done += static_cast<int>(d.text.size());
  const bool ended = d.text.size() == rest.size();
  if (ended) d.finish_reason = FinishReason::kStop;
  if (++active.num_tokens == active.request.sampling->max_tokens) d.finish_reason = FinishReason::kLength;
  if (active.aborted) d.finish_reason = FinishReason::kAbort;
  output.finished = d.finish_reason != FinishReason::kNone;
  for (int i = 0; i < active.request.sampling->n; ++i) {
    d.index = i;
    output.outputs.push_back(d);
  }
  const bool finished = output.finished;
  active.sink(std::move(output));
  return finished;
}

// True when the request has ended.
bool FakeEngine::step(RequestId id, Active& active) {
  if (answer) return answer_step(id, active);
  RequestOutput output;
  output.request = id;
  output.num_prompt_tokens = static_cast<int32_t>(active.request.prompt_token_ids.size());
  output.num_cached_tokens = 1;
  output.times = {10.0, 10.25, 11.0, 13.5};
  const SamplingParams& s = *active.request.sampling;
  if (active.first && s.prompt_logprobs) {
    const auto& ids = active.request.prompt_token_ids;
    for (size_t i = 1; i < ids.size(); ++i)
      output.prompt_logprobs.push_back(fake_logprobs(ids[i], *s.prompt_logprobs));
  }
  active.first = false;
  if (active.request.pooling && !active.aborted) {
    output.pooled = pooled_vector(active.request);
    output.finished = true;
    active.sink(std::move(output));
    return true;
  }
  if (fail_after && active.done >= *fail_after) {
    output.failure = Failure{ErrorKind::kInternal, "the fake engine failed", ""};
    output.finished = true;
    active.sink(std::move(output));
    return true;
  }
  const auto total = static_cast<int>(active.texts.front().size());
  for (int i = 0; i < std::min(s.n, max_texts) && s.max_tokens > 0; ++i) {
    CompletionDelta d;
    d.index = i;
    const char c = active.texts[static_cast<size_t>(i)][static_cast<size_t>(active.done)];
    if (!active.aborted) {
      d.text = c;
      d.token_ids = {static_cast<uint8_t>(c)};
      if (s.logprobs) d.logprobs = {fake_logprobs(static_cast<uint8_t>(c), *s.logprobs)};
    }
    if (active.done + 1 == total) d.finish_reason = FinishReason::kLength;
    if (active.aborted) d.finish_reason = FinishReason::kAbort;
    output.outputs.push_back(std::move(d));
  }
  ++active.done;
  output.finished = active.aborted || active.done >= total || s.max_tokens == 0;
  const bool finished = output.finished;
  active.sink(std::move(output));
  return finished;
}

void FakeEngine::work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait(lock, [&] {
      const bool any_aborted =
          std::any_of(active_.begin(), active_.end(), [](const auto& a) { return a.second.aborted; });
      return stopping_ || (!active_.empty() && (!held_ || any_aborted));
    });
    for (auto it = active_.begin(); it != active_.end() && !stopping_;) {
      const bool may_step = !held_ || it->second.aborted;
      it = may_step && step(it->first, it->second) ? active_.erase(it) : std::next(it);
    }
    changed_.notify_all();
    // Also without a step time, so that callers of abort() get the lock.
    lock.unlock();
    std::this_thread::sleep_for(std::max(step_time, std::chrono::microseconds(1)));
    lock.lock();
  }
}

}  // namespace quire
