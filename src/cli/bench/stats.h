// What benchmarks measure of each request, and the figures made of it. Plain data; one thread at a time.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace quire::cli {

// One request as it was seen. Times in seconds on the monotonic clock (base/clock.h).
struct RequestRecord {
  double begin = 0.0;                 // handed over
  std::vector<double> chunk_times;    // [num_chunks] when each piece of output came, ascending
  std::vector<int32_t> chunk_tokens;  // [num_chunks] tokens in each; 0 where the server does not say
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, not computed again
  int64_t output_tokens = 0;
  std::string error;  // empty: it was done

  bool ok() const { return error.empty(); }
  double ttft() const;  // to the first piece
  double e2e() const;   // to the last piece
  double tpot() const;  // (e2e - ttft) / (output tokens - 1), as vLLM's bench; 0 for a single token
};

struct LatencySummary {  // milliseconds
  double mean = 0.0, p50 = 0.0, p90 = 0.0, p99 = 0.0;
};

// The q-th percentile (0 to 100) of ascending values, linear between neighbours as numpy.percentile does; 0
// of nothing.
double percentile(const std::vector<double>& ascending, double q);

// Of durations in seconds, in any order.
LatencySummary summarize(std::vector<double> seconds);

// The four latencies of all requests that were done. tpot: requests of more than one token. itl: the gaps
// between the pieces of all requests.
struct LatencyReport {
  LatencySummary ttft, tpot, itl, e2e;
};
LatencyReport latencies(const std::vector<RequestRecord>& records);

// What a run must meet to count as good, in milliseconds; none: any.
struct Objectives {
  std::optional<double> ttft, tpot, e2e;
  bool any() const { return ttft || tpot || e2e; }
};
// "ttft:500,tpot:50,e2e:10000"; "e2el" means e2e. Throws Error.
Objectives parse_objectives(const std::string& text);
bool meets(const RequestRecord& record, const Objectives& objectives);

// The two phases of requests that began together: prompts until the last request's first piece, answers from
// there on.
struct Phases {
  int64_t prefill_tokens = 0;  // computed, not taken from the cache
  int64_t decode_tokens = 0;   // of all requests, after the last one's first piece
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

// All figures of a run; what is not known stays empty and is null in JSON.
struct BenchReport {
  std::string model;
  std::optional<std::string> dtype, quantization;
  std::optional<int64_t> threads, batch_size, peak_memory_bytes, weight_bytes;
  std::optional<double> load_s;
  int64_t input_len = 0, output_len = 0;
  int64_t num_requests = 0;  // done
  double elapsed_s = 0.0;
  int64_t prompt_tokens = 0, output_tokens = 0;
  double prefill_tokens_per_s = 0.0, decode_tokens_per_s = 0.0;
  LatencyReport latency;

  double per_second(int64_t count) const {
    return elapsed_s > 0.0 ? static_cast<double>(count) / elapsed_s : 0.0;
  }
};

// Counts requests, tokens and latencies of those that were done; elapsed_s must be set.
void add_records(BenchReport& report, const std::vector<RequestRecord>& records);

// The object of `bench --json`.
nlohmann::ordered_json to_json(const BenchReport& report);
// The same for people. `extra` lines come behind the counts.
std::string to_table(const BenchReport& report, const std::string& title,
                     const std::vector<std::string>& extra = {});
// "label:            value".
std::string table_line(const std::string& label, const std::string& value);

// The table to stdout and the object to `json_path` (empty: nowhere; "-": to stdout instead of the table).
// Throws Error.
void print_report(const std::string& table, const std::string& json_path,
                  const nlohmann::ordered_json& object);

// The most memory that this process ever held, in bytes.
int64_t peak_memory_bytes();

}  // namespace quire::cli
