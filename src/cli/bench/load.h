// Sends the requests of a benchmark to a server at their arrival times and records the responses.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/bench/http_client.h"
#include "cli/bench/stats.h"

namespace quire::cli {

// Returns ascending arrival times in seconds since the start. The gaps are drawn from a gamma distribution
// with shape `burstiness` and mean 1 / rate (1 = Poisson process, below 1 = bursts, above 1 = more regular),
// then scaled so that the last request is sent at count / rate, as in vLLM's benchmark. With an infinite rate
// all times are 0.
std::vector<double> arrival_times(size_t count, double rate, double burstiness, uint64_t seed);

// Records one streamed response of /v1/completions or /v1/chat/completions.
class StreamRecorder {
 public:
  explicit StreamRecorder(RequestRecord& record) : record_(record) {}
  // Processes body bytes received at time `now`.
  void feed(std::string_view bytes, double now);
  // Called at the end of the response. Sets record.error if it failed, and estimates the token count if the
  // server sent no usage.
  void finish(int status, const std::string& body);

 private:
  void take_event(const std::string& data, double now);
  RequestRecord& record_;
  SseParser events_;
  bool has_usage_ = false;
};

// Returns the message of an OpenAI error object, or the beginning of the body if it is not one.
std::string error_message(int status, const std::string& body);

struct LoadOptions {
  size_t max_concurrency = 0;  // maximum number of concurrent requests; 0 = no limit
  double timeout_s = 600.0;    // a request fails after this long without data from the server
};

struct LoadProgress {
  size_t num_done = 0;     // requests, failed ones included
  int64_t num_tokens = 0;  // output tokens so far; a chunk counts as one until the response ends
};

struct LoadResult {
  std::vector<RequestRecord> records;  // [num_requests]
  double elapsed_s = 0.0;
  int64_t peak_concurrency = 0;
};

// Sends complete HTTP requests (request_text) at the times `arrivals`, on one thread with non-blocking,
// reused connections. A failed request has its error in its record; throws Error only if no request can be
// sent at all. `on_progress` is called at least once per second, and after the last response.
LoadResult run_load(const Address& address, const std::vector<std::string>& requests,
                    const std::vector<double>& arrivals, const LoadOptions& options,
                    const std::function<void(const LoadProgress&)>& on_progress = {});

}  // namespace quire::cli
