#include "core.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
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

Batch::~Batch() {
  // A forked child has no engine thread, and locks that the parent held remain locked.
  try {
    handle_->check_process();
  } catch (const RequestError&) {
    (void)requests_.release();
  }
}

void Batch::submit_all(const std::shared_ptr<Engine>& engine, std::vector<Request> requests,
                       const std::vector<int32_t>& priorities, const RequestBatch::Sink& sink) {
  prompts_.reserve(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    prompts_.push_back(requests[i].prompt_token_ids);
    if (!priorities.empty()) requests[i].priority = priorities[priorities.size() == 1 ? 0 : i];
  }
  requests_ = std::make_unique<RequestBatch>(engine);
  const Status submitted =
      sink ? requests_->submit(std::move(requests), sink) : requests_->submit(std::move(requests));
  if (!submitted.ok()) throw RequestError(submitted.failure().kind, submitted.failure().message);
}

void Batch::submit(std::vector<PromptInput> prompts, const std::vector<SharedSamplingParams>& params,
                   const std::vector<int32_t>& priorities, const TokenizeOptions& options,
                   const RequestBatch::Sink& sink) {
  const auto engine = handle_->get();
  std::vector<Request> requests(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    tokenize(*engine, prompts[i], options);
    requests[i].prompt_token_ids = std::move(prompts[i].ids);
    requests[i].sampling = params.size() == 1 ? params.front() : params[i];
    requests[i].cache_salt = std::move(prompts[i].cache_salt);
    requests[i].adapter_name = std::move(prompts[i].lora);
  }
  submit_all(engine, std::move(requests), priorities, sink);
}

void Batch::submit_pooling(std::vector<PromptInput> prompts, const std::vector<PoolingParams>& params,
                           const std::vector<int32_t>& priorities, const TokenizeOptions& options,
                           const RequestBatch::Sink& sink) {
  const auto engine = handle_->get();
  const ModelInfo& info = engine->model();
  SharedSamplingParams sampling;
  sampling.edit().max_tokens = 0;
  std::vector<Request> requests(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (!prompts[i].has_ids && !info.default_prompt.empty())
      prompts[i].text.insert(0, info.prompts.at(info.default_prompt));
    tokenize(*engine, prompts[i], options);
    requests[i].prompt_token_ids = std::move(prompts[i].ids);
    requests[i].sampling = sampling;
    requests[i].cache_salt = std::move(prompts[i].cache_salt);
    requests[i].adapter_name = std::move(prompts[i].lora);
    requests[i].pooling = PoolingRequest{params.size() == 1 ? params.front() : params[i],
                                         prompts[i].second_text, info.pools_all_tokens};
  }
  submit_all(engine, std::move(requests), priorities, sink);
}

RequestBatch::Progress Batch::wait(double seconds) {
  handle_->check_process();
  const RequestBatch::Progress progress = requests_->wait(seconds);
  const auto failed = requests_->failed();
  if (!failed) return progress;
  const auto& [index, failure] = *failed;
  abort();
  throw RequestError(failure.kind,
                     cat(size() == 1 ? std::string() : cat("prompt ", index, ": "), failure.message));
}

void Batch::abort() {
  handle_->check_process();
  requests_->abort();
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
