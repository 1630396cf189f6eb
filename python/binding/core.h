// The engine as Python sees it: a handle that several Python objects share, batches of requests that are
// waited for, and an outbox that passes outputs to an event loop.
//
// Threads: Python threads call every member; the engine thread calls the sinks. The engine thread never takes
// the GIL, so that it neither waits for Python nor runs Python code while the interpreter exits. Members that
// may wait release the GIL themselves (gil.h).
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/request_batch.h"

namespace quire::python {

// A request that the engine rejected or could not finish. Becomes one of the exceptions of
// quire/exceptions.py.
class RequestError : public Error {
 public:
  RequestError(ErrorKind kind, const std::string& message) : Error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Shared ownership of an engine. After a fork the child has the object, but none of the engine's threads.
class EngineHandle {
 public:
  explicit EngineHandle(std::shared_ptr<Engine> engine);
  ~EngineHandle();
  EngineHandle(const EngineHandle&) = delete;
  EngineHandle& operator=(const EngineHandle&) = delete;

  // Keeps the engine alive during a call. Throws RequestError if it was closed or if this is a forked child.
  std::shared_ptr<Engine> get() const;
  // Throws RequestError in a forked child.
  void check_process() const;
  // Ends all requests and frees the model, once no call uses it. Does nothing in a forked child.
  void close();

 private:
  bool forked() const;

  const pid_t process_;
  mutable std::mutex mutex_;
  std::shared_ptr<Engine> engine_;
};

// One prompt: text, or token ids if there are any. A pair has a second text.
struct PromptInput {
  std::string text;
  std::vector<TokenId> ids;
  std::string cache_salt;
  std::string lora;  // Request::adapter_name
  bool has_ids = false;
  int32_t second_text = 0;  // PoolingRequest::second_text
};

struct TokenizeOptions {
  bool add_special_tokens = true;
  int32_t truncate = -1;   // tokens to keep; -1 = all
  bool keep_right = true;  // keep the last tokens, not the first
};

// Fills in the token ids. Throws RequestError if the engine has no tokenizer.
void tokenize(const Engine& engine, PromptInput& prompt, const TokenizeOptions& options);

// The requests of one call. Python threads only.
class Batch {
 public:
  explicit Batch(std::shared_ptr<EngineHandle> handle) : handle_(std::move(handle)) {}
  // Aborts what still runs.
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Submits one request per element, in order. If one is rejected, throws RequestError and runs none.
  // priorities: one for all requests or one for each; empty = 0. sink: gets the outputs instead of wait() and
  // outputs().
  void submit(std::vector<PromptInput> prompts, const std::vector<SharedSamplingParams>& params,
              const std::vector<int32_t>& priorities, const TokenizeOptions& options,
              const RequestBatch::Sink& sink = {});
  void submit_pooling(std::vector<PromptInput> prompts, const std::vector<PoolingParams>& params,
                      const std::vector<int32_t>& priorities, const TokenizeOptions& options,
                      const RequestBatch::Sink& sink = {});

  // Waits until all requests have finished or `seconds` have passed; negative = no limit. Throws RequestError
  // if a request failed.
  RequestBatch::Progress wait(double seconds);
  void abort();
  size_t size() const { return prompts_.size(); }
  const std::vector<TokenId>& prompt(size_t index) const { return prompts_[index]; }
  // Valid when all requests have finished.
  const std::vector<RequestOutput>& outputs() const { return requests_->outputs(); }
  const EngineHandle& handle() const { return *handle_; }

 private:
  void submit_all(const std::shared_ptr<Engine>& engine, std::vector<Request> requests,
                  const std::vector<int32_t>& priorities, const RequestBatch::Sink& sink);

  std::shared_ptr<EngineHandle> handle_;
  std::vector<std::vector<TokenId>> prompts_;
  std::unique_ptr<RequestBatch> requests_;
};

// Collects the outputs of many requests for one event loop, and makes a file descriptor readable when there
// are some. Shared by the Python object and the sinks.
class Outbox {
 public:
  struct Item {
    int64_t key = 0;
    RequestOutput output;
  };

  Outbox();
  ~Outbox();
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  int fd() const { return fd_; }
  // Any thread.
  void push(int64_t key, RequestOutput&& output);
  std::vector<Item> take();

 private:
  const int fd_;
  std::mutex mutex_;
  std::vector<Item> items_;
};

}  // namespace quire::python
