// The load of a simulation: arrival times, lengths and shared prefixes of requests, read from a file or drawn
// from a distribution. Plain data.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <limits>
#include <string>
#include <vector>

#include "contract/ids.h"

namespace quire::sim {

struct TraceRequest {
  double arrival = 0.0;     // seconds after the first request
  int32_t input_len = 0;    // tokens of the prompt, at least 1
  int32_t output_len = 0;   // tokens generated, at least 1
  uint32_t first_hash = 0;  // its hash ids are Trace::hash_ids[first_hash .. first_hash + num_hashes)
  uint32_t num_hashes = 0;  // 0 = the prompt shares no prefix
  int32_t adapter = 0;      // 0 = the base model; otherwise Trace::adapters[adapter - 1]
};

struct Trace {
  // Tokens per hash id (Mooncake traces).
  static constexpr int32_t kTokensPerHash = 512;

  std::vector<TraceRequest> requests;  // by arrival
  // Ids of prompt blocks. Prompts that start with the same ids share these tokens. Request i has
  // ceil(input_len / kTokensPerHash) of them, or none.
  std::vector<int32_t> hash_ids;
  std::vector<std::string> adapters;  // names of LoRA adapters, in order of their first requests
  bool has_times = false;             // arrivals are from the file; otherwise all are 0

  double duration() const { return requests.empty() ? 0.0 : requests.back().arrival; }
  int64_t num_tokens() const;  // prompt and output tokens
  int32_t longest() const;     // maximum of input_len + output_len
};

// max_requests that reads the whole file.
inline constexpr int64_t kAllRequests = std::numeric_limits<int64_t>::max();

// Reads a CSV trace (the format of the Azure traces) with the columns ContextTokens and GeneratedTokens, and,
// if `needs_times`, TIMESTAMP: "2023-11-16 18:15:46.68" with an optional zone +00:00 or Z, or seconds. A
// length of 0 counts as 1. A column `adapter` has names of LoRA adapters; an empty cell is the base model.
// Throws Error with file, line and cell.
Trace read_csv_trace(const std::string& path, int64_t max_requests, bool needs_times);

// Reads JSON lines (the format of the Mooncake traces): {"timestamp": milliseconds, "input_length",
// "output_length", "hash_ids": [one per 512 tokens], "adapter": name}. timestamp or hash_ids may be missing
// from all lines, adapter from any. Throws Error with file and line.
Trace read_jsonl_trace(const std::string& path, int64_t max_requests);

// Log-normal lengths with this mean and coefficient of variation (0 = constant), clamped to [1, max_len].
struct Distribution {
  int64_t num_requests = 1000;
  double input_mean = 1024.0;
  double input_cv = 1.0;
  double output_mean = 256.0;
  double output_cv = 1.0;
  int32_t max_len = 1 << 20;
};
Trace draw_trace(const Distribution& distribution, uint64_t seed);

// Replaces the arrival times. The gaps have a gamma distribution with shape `burstiness` (1 = Poisson
// process) and mean 1 / rate. With an infinite rate all requests arrive at once.
void set_arrivals(Trace& trace, double rate, double burstiness, uint64_t seed);

// Divides all arrival times by `speed`.
void speed_up(Trace& trace, double speed);

// Truncates requests to max_len tokens: first the output, leaving room for a prompt, then the prompt. Returns
// the number of truncated requests.
int64_t cut_lengths(Trace& trace, int32_t max_len);

// Returns synthetic prompt tokens that are equal exactly where the trace specifies equal prefixes.
void fill_prompt(const Trace& trace, int64_t request, std::vector<TokenId>& token_ids);

}  // namespace quire::sim
