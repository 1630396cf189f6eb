#include "sim/trace.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"
#include "base/rng.h"
#include "base/strings.h"

namespace quire::sim {

namespace {

int32_t draw_length(double mean, double cv, int32_t max_len, std::mt19937_64& engine) {
  double length = mean;
  if (cv > 0.0) {
    // Parameters of the log-normal distribution with this mean and coefficient of variation.
    const double variance = std::log1p(cv * cv);
    std::normal_distribution<double> normal(std::log(mean) - variance / 2.0, std::sqrt(variance));
    length = std::exp(normal(engine));
  }
  return static_cast<int32_t>(std::clamp(std::round(length), 1.0, static_cast<double>(max_len)));
}

}  // namespace

int64_t Trace::num_tokens() const {
  int64_t sum = 0;
  for (const TraceRequest& request : requests) sum += int64_t{request.input_len} + request.output_len;
  return sum;
}

int32_t Trace::longest() const {
  int32_t longest = 0;
  for (const TraceRequest& request : requests)
    longest = std::max(longest, request.input_len + request.output_len);
  return longest;
}

Trace draw_trace(const Distribution& d, uint64_t seed) {
  if (d.num_requests < 1 || !(d.input_mean >= 1.0) || !(d.output_mean >= 1.0) || !(d.input_cv >= 0.0) ||
      !(d.output_cv >= 0.0)) {
    throw Error(
        "A distribution of requests needs at least one request, means of at least one token and coefficients "
        "of variation of 0 or more.");
  }
  Trace trace;
  std::mt19937_64 engine(mix64(seed));
  trace.requests.resize(static_cast<size_t>(d.num_requests));
  for (TraceRequest& request : trace.requests) {
    request.input_len = draw_length(d.input_mean, d.input_cv, d.max_len, engine);
    request.output_len = draw_length(d.output_mean, d.output_cv, d.max_len, engine);
  }
  return trace;
}

void set_arrivals(Trace& trace, double rate, double burstiness, uint64_t seed) {
  trace.has_times = false;
  if (!(rate > 0.0) || !(burstiness > 0.0))
    throw Error("the request rate and the burstiness must be positive");
  double now = 0.0;
  std::mt19937_64 engine(mix64(seed + 1));
  std::gamma_distribution<double> gap(burstiness, 1.0 / (rate * burstiness));
  for (TraceRequest& request : trace.requests) {
    request.arrival = now;
    if (std::isfinite(rate)) now += gap(engine);
  }
}

void speed_up(Trace& trace, double speed) {
  if (!(speed > 0.0) || !std::isfinite(speed)) throw Error("the speed must be positive");
  for (TraceRequest& request : trace.requests) request.arrival /= speed;
}

int64_t cut_lengths(Trace& trace, int32_t max_len) {
  if (max_len < 2) throw Error("the maximum length must be at least 2 tokens, for a prompt and an output");
  int64_t num_cut = 0;
  for (TraceRequest& request : trace.requests) {
    if (int64_t{request.input_len} + request.output_len <= max_len) continue;
    request.output_len = std::min(request.output_len, max_len - 1);
    request.input_len = std::min(request.input_len, max_len - request.output_len);
    const int32_t num_hashes = (request.input_len + Trace::kTokensPerHash - 1) / Trace::kTokensPerHash;
    request.num_hashes = std::min(request.num_hashes, static_cast<uint32_t>(num_hashes));
    ++num_cut;
  }
  return num_cut;
}

void fill_prompt(const Trace& trace, int64_t index, std::vector<TokenId>& token_ids) {
  const TraceRequest& request = trace.requests[static_cast<size_t>(index)];
  const size_t length = static_cast<size_t>(request.input_len);
  if (request.num_hashes == 0) {
    // The request's index makes its tokens unique.
    token_ids.assign(length, static_cast<TokenId>(index));
    return;
  }
  token_ids.resize(length);
  constexpr size_t kStride = Trace::kTokensPerHash;
  for (size_t begin = 0, i = 0; begin < length; begin += kStride, ++i) {
    const TokenId content = trace.hash_ids[request.first_hash + i];
    const size_t end = std::min(begin + kStride, length);
    std::fill(token_ids.begin() + static_cast<ptrdiff_t>(begin),
              token_ids.begin() + static_cast<ptrdiff_t>(end), content);
  }
}

}  // namespace quire::sim
