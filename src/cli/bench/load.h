// Sends the requests of a benchmark to a server, each at its time, and takes down what comes back.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/bench/http_client.h"
#include "cli/bench/stats.h"

namespace quire::cli {

// When each request is sent, in seconds from the begin, ascending. The gaps are drawn from a gamma
// distribution of shape `burstiness` and mean 1 / rate (1: a Poisson process; below: in bursts; above: more
// even), then scaled so that the last is sent at count / rate, as vLLM's bench does. An infinite rate sends
// all at once.
std::vector<double> arrival_times(size_t count, double rate, double burstiness, uint64_t seed);

// Reads one streamed answer of /v1/completions or /v1/chat/completions.
class StreamRecorder {
 public:
  explicit StreamRecorder(RequestRecord& record) : record_(record) {}
  // Body bytes that came at `now`.
  void feed(std::string_view bytes, double now);
  // The response is whole: names what was wrong with it, and counts tokens where the server gave no usage.
  void finish(int status, const std::string& body);

 private:
  void take_event(const std::string& data, double now);
  RequestRecord& record_;
  SseParser events_;
  bool has_usage_ = false;
};

// What an error response says: the message of an OpenAI error object, else its beginning.
std::string error_message(int status, const std::string& body);

struct LoadOptions {
  size_t max_concurrency = 0;  // requests under way at once; 0: any
  double timeout_s = 600.0;    // a request to which nothing came for so long has failed
};

struct LoadResult {
  std::vector<RequestRecord> records;  // [num_requests]
  double elapsed_s = 0.0;
  int64_t peak_concurrency = 0;
};

// `requests` are whole HTTP requests (request_text), `arrivals` their times. One thread, non-blocking
// connections that are used again. What happens to a request is in its record; throws Error only where
// nothing can be sent at all.
LoadResult run_load(const Address& address, const std::vector<std::string>& requests,
                    const std::vector<double>& arrivals, const LoadOptions& options,
                    const std::function<void(size_t done)>& on_finished = {});

}  // namespace quire::cli
