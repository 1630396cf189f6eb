// Measurements of single requests and the statistics of a benchmark. Plain data, not thread-safe.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace quire::cli {

// Measurements of one request. Times are in seconds on the monotonic clock (base/clock.h).
struct RequestRecord {
  double begin = 0.0;                 // time of submission
  std::vector<double> chunk_times;    // [num_chunks] arrival times of the output chunks, ascending
  std::vector<int32_t> chunk_tokens;  // [num_chunks] tokens per chunk; 0 = not reported by the server
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // prompt tokens found in the prefix cache
  int64_t output_tokens = 0;
  std::string error;  // empty if the request succeeded

  bool ok() const { return error.empty(); }
  double ttft() const;  // until the first chunk
  double e2e() const;   // until the last chunk
  double tpot() const;  // (e2e - ttft) / (output tokens - 1), as in vLLM's benchmark; 0 for a single token
};

struct LatencySummary {  // milliseconds
  double mean = 0.0, p50 = 0.0, p90 = 0.0, p99 = 0.0;
};

// Returns the q-th percentile (0 to 100) of ascending values with linear interpolation, as numpy.percentile;
// 0 if there are no values.
double percentile(const std::vector<double>& ascending, double q);

// Summarizes durations in seconds, given in any order.
LatencySummary summarize(std::vector<double> seconds);
nlohmann::ordered_json summary_json(const LatencySummary& s);

// Latencies of all successful requests. TPOT excludes requests with one token. ITL: the gaps between the
// chunks of all requests.
struct LatencyReport {
  LatencySummary ttft, tpot, itl, e2e;
};
LatencyReport latencies(const std::vector<RequestRecord>& records);

// SLOs for goodput, in milliseconds; nullopt = no limit.
struct Objectives {
  std::optional<double> ttft, tpot, e2e;
  bool any() const { return ttft || tpot || e2e; }
};
// Parses "ttft:500,tpot:50,e2e:10000"; "e2el" is accepted for e2e. Throws Error.
Objectives parse_objectives(const std::string& text);
bool meets(const RequestRecord& record, const Objectives& objectives);

// The two phases of a batch: prefill until the last request's first chunk, then decode.
struct Phases {
  int64_t prefill_tokens = 0;  // computed prompt tokens, without prefix cache hits
  int64_t decode_tokens = 0;   // tokens of all requests in the decode phase
  double prefill_s = 0.0;
  double decode_s = 0.0;
  Phases& operator+=(const Phases& other);
  double prefill_tokens_per_s() const {
    return prefill_s > 0.0 ? static_cast<double>(prefill_tokens) / prefill_s : 0.0;
  }
  double decode_tokens_per_s() const {
    return decode_s > 0.0 ? static_cast<double>(decode_tokens) / decode_s : 0.0;
  }
};
Phases phases_of(const std::vector<RequestRecord>& batch);

// The results of a run. Unknown values are nullopt, and null in JSON.
struct BenchReport {
  std::string model;
  std::optional<std::string> dtype, quantization;
  std::optional<int64_t> threads, batch_size, peak_memory_bytes, weight_bytes;
  std::optional<double> load_s;
  int64_t input_len = 0, output_len = 0;
  int64_t num_requests = 0;  // successful requests
  double elapsed_s = 0.0;
  int64_t prompt_tokens = 0, output_tokens = 0;
  double prefill_tokens_per_s = 0.0, decode_tokens_per_s = 0.0;
  LatencyReport latency;

  double per_second(int64_t count) const {
    return elapsed_s > 0.0 ? static_cast<double>(count) / elapsed_s : 0.0;
  }
};

// Adds counts and latencies of the successful requests. elapsed_s must be set.
void add_records(BenchReport& report, const std::vector<RequestRecord>& records);

// Returns the object of `bench --json`.
nlohmann::ordered_json to_json(const BenchReport& report);
// Returns the results as a table; the `extra` lines follow the counts.
std::string to_table(const BenchReport& report, const std::string& title,
                     const std::vector<std::string>& extra = {});
// Returns "label:            value".
std::string table_line(const std::string& label, const std::string& value);

// Prints the table to stdout and writes the object to `json_path` (empty = not written; "-" = stdout, without
// the table). Throws Error.
void print_report(const std::string& table, const std::string& json_path,
                  const nlohmann::ordered_json& object);

// Writes or replaces a file. Throws Error.
void write_text(const std::string& path, const std::string& text);

// Returns the peak resident set size of this process in bytes.
int64_t peak_memory_bytes();

}  // namespace quire::cli
