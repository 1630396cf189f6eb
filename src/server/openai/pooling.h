// One pooling request: submits its texts to the engine, takes the vectors from the engine thread and writes
// the response. Lives as long as the engine or the connection refers to it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "server/http/http_types.h"
#include "server/http/work_pool.h"
#include "server/openai/answer_format.h"
#include "server/openai/pooling_spec.h"

namespace quire {

class Pooling : public std::enable_shared_from_this<Pooling> {
 public:
  // `stop` is requested when the client disconnects. `pool` writes the response.
  Pooling(ServingEngine& engine, PoolingSpec spec, std::shared_ptr<ResponseWriter> writer,
          std::shared_ptr<WorkPool> pool, std::stop_source stop);
  // Submits all texts. Runs on a thread of the pool.
  void start();

 private:
  struct Text {
    bool finished = false;
    int64_t num_tokens = 0;
    int64_t cached_tokens = 0;
    std::vector<float> vector;
  };
  struct Abort {
    Pooling* pooling;
    void operator()() const { pooling->abort_all(); }
  };

  Status submit_all();
  void receive(size_t index, RequestOutput&& output) noexcept;  // engine thread
  void fail(const Failure& failure) noexcept;                   // any thread
  void fail(ErrorKind kind, const char* message) noexcept;      // any thread
  void finish() noexcept;                                       // pool
  void reply(HttpResponse response);
  void abort_all() noexcept;
  Usage usage() const;
  std::vector<double> scores() const;
  void write_vectors(JsonOut& out) const;
  void write_ranks(JsonOut& out) const;
  void write_scores(JsonOut& out) const;
  void write_classes(JsonOut& out) const;
  std::string response_body() const;

  ServingEngine& engine_;
  PoolingSpec spec_;
  const std::shared_ptr<ResponseWriter> writer_;
  const std::shared_ptr<WorkPool> pool_;
  const std::stop_source stop_;
  std::atomic<bool> closed_{false};  // the response is decided, or the client has disconnected

  std::mutex mutex_;
  std::vector<Text> texts_;  // guarded by mutex_ until all are finished
  size_t num_unfinished_ = 0;

  const std::shared_ptr<RequestPort> port_ = unowned(engine_);
  RequestBatch requests_{port_};

  // Last, so that it is destroyed before anything that its callback uses.
  std::optional<std::stop_callback<Abort>> on_stop_;
};

}  // namespace quire
