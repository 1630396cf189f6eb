#include "core.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <system_error>

#include "base/strings.h"

namespace quire::python {

EngineHandle::EngineHandle(std::shared_ptr<Engine> engine) : process_(getpid()), engine_(std::move(engine)) {}

EngineHandle::~EngineHandle() {
  // The destructor of the engine would wait for threads that a forked child does not have.
  if (forked()) (void)new std::shared_ptr<Engine>(std::move(engine_));
}

bool EngineHandle::forked() const {
  return getpid() != process_;
}

void EngineHandle::check_process() const {
  if (!forked()) return;
  throw RequestError(
      ErrorKind::kUnsupported,
      cat("this engine was created in process ", process_, " and does not run in its forked child ", getpid(),
          ": create it in the child, or start the child with multiprocessing's 'spawn' method"));
}

std::shared_ptr<Engine> EngineHandle::get() const {
  check_process();
  const std::lock_guard lock(mutex_);
  if (!engine_) throw RequestError(ErrorKind::kInternal, "the engine was shut down");
  return engine_;
}

void EngineHandle::close() {
  if (forked()) return;
  std::shared_ptr<Engine> engine;
  {
    const std::lock_guard lock(mutex_);
    engine.swap(engine_);
  }
}

RequestId accepted(Result<RequestId> submitted, const std::string& place) {
  if (submitted.ok()) return *submitted;
  throw RequestError(submitted.failure().kind, cat(place, submitted.failure().message));
}

void tokenize(const Engine& engine, PromptInput& prompt, const TokenizeOptions& options) {
  if (!prompt.has_ids) {
    if (engine.tokenizer() == nullptr) {
      throw RequestError(ErrorKind::kInvalidArgument,
                         cat(engine.model().name, ": has no tokenizer files; give prompts as token ids"));
    }
    prompt.ids = engine.tokenizer()->encode(prompt.text, options.add_special_tokens);
  }
  const auto keep = static_cast<size_t>(options.truncate);
  if (options.truncate < 0 || prompt.ids.size() <= keep) return;
  const auto count = static_cast<std::ptrdiff_t>(keep);
  if (options.keep_right) {
    prompt.ids.erase(prompt.ids.begin(), prompt.ids.end() - count);
  } else {
    prompt.ids.erase(prompt.ids.begin() + count, prompt.ids.end());
  }
}

namespace {

template <typename T>
void move_to_end(std::vector<T>& to, std::vector<T>&& from) {
  if (to.empty()) {
    to = std::move(from);
  } else {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  }
}

std::string place_of(size_t index, size_t count) {
  return count == 1 ? std::string() : cat("prompt ", index, ": ");
}

}  // namespace

void Record::append(RequestOutput&& output) {
  for (CompletionDelta& delta : output.outputs) {
    const auto index = static_cast<size_t>(delta.index);
    if (index >= outputs.size()) outputs.resize(index + 1);
    CompletionDelta& joined = outputs[index];
    joined.index = delta.index;
    joined.text += delta.text;
    move_to_end(joined.token_ids, std::move(delta.token_ids));
    move_to_end(joined.logprobs, std::move(delta.logprobs));
    joined.cumulative_logprob = delta.cumulative_logprob;
    joined.finish_reason = delta.finish_reason;
    joined.stop_reason = std::move(delta.stop_reason);
  }
  move_to_end(prompt_logprobs, std::move(output.prompt_logprobs));
  if (!output.pooled.empty()) pooled = std::move(output.pooled);
  num_cached_tokens = output.num_cached_tokens;
  times = output.times;
  finished = output.finished;
}

Batch::~Batch() {
  try {
    abort();
  } catch (...) {  // a closed engine, or a forked child: nothing runs
  }
}

// Engine thread. The caller is woken only when everything has finished: a step of many requests would wake it
// for each of them.
void Batch::receive(State& state, size_t index, RequestOutput&& output) {
  const bool finished = output.finished;
  Record& record = state.records[index];
  std::optional<Failure> failure = std::move(output.failure);
  record.append(std::move(output));
  if (!finished) return;
  int64_t num_output_tokens = 0;
  for (const CompletionDelta& completion : record.outputs)
    num_output_tokens += static_cast<int64_t>(completion.token_ids.size());
  bool done = false;
  {
    const std::lock_guard lock(state.mutex);
    Progress& progress = state.progress;
    ++progress.num_finished;
    progress.num_prompt_tokens += static_cast<int64_t>(record.prompt_token_ids.size()) *
                                  static_cast<int64_t>(std::max<size_t>(1, record.outputs.size()));
    progress.num_output_tokens += num_output_tokens;
    if (failure && !state.failed) state.failed.emplace(index, std::move(*failure));
    done = state.failed || progress.num_finished == state.records.size();
  }
  if (done) state.changed.notify_all();
}

void Batch::submit_one(Engine& engine, size_t index, GenerateRequest request) {
  request.prompt_token_ids = state_->records[index].prompt_token_ids;
  auto sink = [state = state_, index](RequestOutput&& output) { receive(*state, index, std::move(output)); };
  ids_.push_back(accepted(engine.submit(std::move(request), std::move(sink)), place_of(index, size())));
}

void Batch::submit(std::vector<PromptInput> prompts, const std::vector<SharedSamplingParams>& params,
                   const std::vector<int32_t>& priorities, const TokenizeOptions& options) {
  const auto engine = handle_->get();
  state_->records.resize(prompts.size());
  ids_.reserve(prompts.size());
  try {
    for (size_t i = 0; i < prompts.size(); ++i) {
      tokenize(*engine, prompts[i], options);
      state_->records[i].prompt_token_ids = std::move(prompts[i].ids);
      GenerateRequest request;
      request.sampling = params.size() == 1 ? params.front() : params[i];
      request.priority = priorities.empty() ? 0 : priorities.size() == 1 ? priorities.front() : priorities[i];
      request.cache_salt = std::move(prompts[i].cache_salt);
      submit_one(*engine, i, std::move(request));
    }
  } catch (...) {
    for (const RequestId id : ids_) engine->abort(id);
    throw;
  }
}

void Batch::submit_pooling(std::vector<PromptInput> prompts, const std::vector<PoolingParams>& params,
                           const TokenizeOptions& options) {
  const auto engine = handle_->get();
  const ModelInfo& info = engine->model();
  state_->records.resize(prompts.size());
  SharedSamplingParams sampling;
  sampling.edit().max_tokens = 0;
  try {
    for (size_t i = 0; i < prompts.size(); ++i) {
      if (!prompts[i].has_ids && !info.default_prompt.empty())
        prompts[i].text.insert(0, info.prompts.at(info.default_prompt));
      tokenize(*engine, prompts[i], options);
      state_->records[i].prompt_token_ids = std::move(prompts[i].ids);
      GenerateRequest request;
      request.sampling = sampling;
      request.pooling = PoolingRequest{params.size() == 1 ? params.front() : params[i],
                                       prompts[i].second_text, info.pools_all_tokens};
      submit_one(*engine, i, std::move(request));
    }
  } catch (...) {
    for (const RequestId id : ids_) engine->abort(id);
    throw;
  }
}

Progress Batch::wait(double seconds) {
  handle_->check_process();
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  const auto done = [&state] { return state.failed || state.progress.num_finished == state.records.size(); };
  if (seconds < 0) {
    state.changed.wait(lock, done);
  } else {
    state.changed.wait_for(lock, std::chrono::duration<double>(seconds), done);
  }
  if (!state.failed) return state.progress;
  const auto [index, failure] = *state.failed;
  lock.unlock();
  abort();
  throw RequestError(failure.kind, cat(place_of(index, size()), failure.message));
}

void Batch::abort() {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->progress.num_finished == state_->records.size()) return;
  }
  const auto engine = handle_->get();
  for (const RequestId id : ids_) engine->abort(id);
}

Outbox::Outbox() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "cannot create an eventfd");
}

Outbox::~Outbox() {
  ::close(fd_);
}

void Outbox::push(int64_t key, RequestOutput&& output) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    wake = items_.empty();
    items_.push_back({key, std::move(output)});
  }
  const uint64_t one = 1;
  if (wake) (void)!write(fd_, &one, sizeof one);
}

std::vector<Outbox::Item> Outbox::take() {
  uint64_t count = 0;
  (void)!read(fd_, &count, sizeof count);
  const std::lock_guard lock(mutex_);
  return std::exchange(items_, {});
}

}  // namespace quire::python
