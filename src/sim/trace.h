// The load of a simulation: when requests come, how long they are, and what their prompts share. Read from a
// file or drawn from a distribution. Plain data; any thread.
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
  uint32_t num_hashes = 0;  // 0: the prompt shares no prefix with another
};

struct Trace {
  // Tokens that one hash id stands for (Mooncake's traces).
  static constexpr int32_t kTokensPerHash = 512;

  std::vector<TraceRequest> requests;  // by arrival
  // Names of prompt blocks: equal names behind equal names are equal tokens. Request i has
  // ceil(input_len / kTokensPerHash) of them, or none.
  std::vector<int32_t> hash_ids;
  bool has_times = false;  // the arrivals are the file's; else all are 0

  double duration() const { return requests.empty() ? 0.0 : requests.back().arrival; }
  int64_t num_tokens() const;  // prompts and answers
  int32_t longest() const;     // prompt and answer of the longest request
};

// The most requests read from a file.
inline constexpr int64_t kAllRequests = std::numeric_limits<int64_t>::max();

// CSV with a header that names ContextTokens and GeneratedTokens, and TIMESTAMP ("2023-11-16 18:15:46.68",
// a zone of +00:00 or Z allowed, or seconds) where `needs_times`. Azure's traces have it so. A length of 0
// counts as 1. `path` is for messages. Throws Error that names file, line and cell.
Trace read_csv_trace(const std::string& path, int64_t max_requests, bool needs_times);

// JSON lines {"timestamp": milliseconds, "input_length", "output_length", "hash_ids": [one for each 512
// tokens]}, hash_ids or timestamp may be missing from all lines. Mooncake's traces have it so. Throws Error
// that names file and line.
Trace read_jsonl_trace(const std::string& path, int64_t max_requests);

// Lengths drawn from log-normal distributions of this mean and coefficient of variation (0: all the same),
// cut to [1, max_len].
struct Distribution {
  int64_t num_requests = 1000;
  double input_mean = 1024.0;
  double input_cv = 1.0;
  double output_mean = 256.0;
  double output_cv = 1.0;
  int32_t max_len = 1 << 20;
};
Trace draw_trace(const Distribution& distribution, uint64_t seed);

// Gives all requests new arrivals: gaps of a gamma distribution of shape `burstiness` (1: a Poisson process)
// and mean 1 / rate. An infinite rate: all at once.
void set_arrivals(Trace& trace, double rate, double burstiness, uint64_t seed);

// The same requests, coming `speed` times as fast.
void speed_up(Trace& trace, double speed);

// Cuts what is longer than max_len tokens: the answer to leave room for a prompt, then the prompt. Returns
// how many it cut.
int64_t cut_lengths(Trace& trace, int32_t max_len);

// The tokens of a prompt: made up, but equal exactly where the trace says that prefixes are equal.
void fill_prompt(const Trace& trace, int64_t request, std::vector<TokenId>& token_ids);

}  // namespace quire::sim
