// Runs a request for vectors and writes its answer. Made for each request; lives until the answer is sent or
// the client goes.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/http/http_types.h"
#include "server/openai/answer_format.h"
#include "server/openai/pooling_spec.h"

namespace quire {

class Pooling : public std::enable_shared_from_this<Pooling> {
 public:
  Pooling(ServingEngine& engine, PoolingSpec spec, std::shared_ptr<ResponseWriter> writer, bool log_requests);
  // On the connection's strand.
  void start();

 private:
  struct Text {
    RequestId request = -1;
    bool finished = false;
    int64_t cached_tokens = 0;
    std::vector<float> vector;
  };

  void receive(size_t index, RequestOutput&& output);  // engine thread
  void fail(const Failure& failure);
  void finish();
  void abort_all();
  Usage usage() const;
  std::vector<double> scores() const;
  void write_vectors(JsonOut& out) const;
  void write_ranks(JsonOut& out) const;
  void write_scores(JsonOut& out) const;
  void write_classes(JsonOut& out) const;
  std::string answer() const;

  ServingEngine& engine_;
  const PoolingSpec spec_;
  const std::shared_ptr<ResponseWriter> writer_;
  const bool log_requests_;
  const double begin_ = monotonic_seconds();
  bool closed_ = false;  // answered, or nobody is there to take the answer; the strand's

  std::mutex mutex_;
  std::vector<Text> texts_;  // under the mutex until all have come
  size_t num_unfinished_ = 0;
  std::atomic<bool> deaf_{false};
};

// Standard base64, with padding.
std::string base64_of(std::string_view bytes);

}  // namespace quire
