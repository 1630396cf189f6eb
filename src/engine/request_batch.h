// The requests of one call or of one HTTP request: all are submitted or none, and those that still run are
// aborted when the batch is destroyed. Used by the server, the library and the Python package.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "contract/request.h"
#include "contract/request_output.h"
#include "engine/engine_types.h"

namespace quire {

struct AdapterVersion;  // engine/adapter_store.h

// A request and where its outputs go.
struct Submission {
  Request request;
  OutputSink sink;
  std::shared_ptr<AdapterVersion> adapter = {};  // set by the engine: to be loaded before the request runs
};

// Takes requests: the engine, or a fake in tests. Any thread.
class RequestPort {
 public:
  virtual ~RequestPort() = default;
  // Submits all requests or none, and returns the id of the first; the others follow it. A refusal is
  // returned here and no sink is called; otherwise each sink is called at least once, the last time with
  // finished = true. If there are several requests, the message names the one that is refused.
  virtual Result<RequestId> submit(std::vector<Submission> requests) = 0;
  // Ends `count` requests from `first` on within a step; their sinks get a last output with
  // FinishReason::kAbort. Unknown and finished ids are ignored.
  virtual void abort(RequestId first, size_t count) = 0;
};

// A pointer to a port that outlives its users.
inline std::shared_ptr<RequestPort> unowned(RequestPort& port) {
  return {&port, [](RequestPort*) {}};
}

class RequestBatch {
 public:
  // Called on the engine thread with the index of the request; see OutputSink.
  using Sink = std::function<void(size_t index, RequestOutput&&)>;

  struct Progress {
    size_t num_finished = 0;
    int64_t num_prompt_tokens = 0;  // of finished requests, multiplied by their number of outputs
    int64_t num_output_tokens = 0;  // of finished requests
  };

  // The batch does not keep the port alive: a port that is gone has ended its requests.
  explicit RequestBatch(std::weak_ptr<RequestPort> port) : port_(std::move(port)) {}
  ~RequestBatch() { abort(); }
  RequestBatch(const RequestBatch&) = delete;
  RequestBatch& operator=(const RequestBatch&) = delete;

  // Call one of the two, once. The first passes outputs on; the second collects them.
  Status submit(std::vector<Request> requests, const Sink& sink);
  Status submit(std::vector<Request> requests);
  // Ends the requests, also those of a submit() that has not returned yet. Any thread, any number of times.
  void abort() noexcept;

  // Collecting. Waits until all requests have finished, one has failed, or `seconds` have passed; negative =
  // no limit.
  Progress wait(double seconds = -1.0);
  // Waits until the first request has an output, and removes it. An output with finished = true is the last.
  RequestOutput next();
  // The request that failed first, if one has.
  std::optional<std::pair<size_t, Failure>> failed() const {
    const std::lock_guard lock(state_->mutex);
    return state_->failed;
  }
  // When all have finished: one for each request, which joins all that it sent.
  std::vector<RequestOutput>& outputs() { return state_->outputs; }
  const std::vector<RequestOutput>& outputs() const { return state_->outputs; }

 private:
  // Shared with the sinks.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<RequestOutput> outputs;
    Progress progress;
    std::optional<std::pair<size_t, Failure>> failed;
    std::atomic<size_t> num_running{0};  // requests whose last output has not arrived
    bool streams = false;                // next() waits: each output wakes it
    bool has_next = false;               // outputs[0] has something that next() did not return

    bool done() const { return failed || progress.num_finished == outputs.size(); }
    void take(size_t index, RequestOutput&& output);
  };

  std::weak_ptr<RequestPort> port_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::mutex mutex_;  // guards the following
  std::optional<RequestId> first_;
  size_t count_ = 0;
  bool aborted_ = false;
};

}  // namespace quire
