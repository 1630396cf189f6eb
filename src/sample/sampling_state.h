// What one sequence's sampler remembers between its tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "contract/ids.h"
#include "contract/sampling_params.h"
#include "sample/token_counts.h"

namespace quire {

// What a request's parameters mean for one model, worked out once and shared by all samples of the request.
// Immutable.
struct SamplingRules {
  SamplingParams params;
  bool allows_all = true;                             // the request names no allowed_token_ids
  std::vector<TokenId> allowed;                       // else these: ascending, without repeats
  std::vector<TokenId> masked_until_min_tokens;       // stop and end tokens, the latter with ignore_eos too
  std::vector<std::pair<TokenId, float>> logit_bias;  // values cut to [-100, 100]
  bool has_penalties = false;                         // repetition, presence or frequency: tokens are counted
};

// Owned by the executor's sequence record; one thread at a time. Holds no table of the vocabulary's size:
// what it counts grows with the distinct tokens of the sequence, and only when the request sets a penalty.
class SamplingState {
 public:
  // prompt: for the repetition penalty. end_token_ids: the model's. sample_index: 0 .. n-1, the stream of the
  // random numbers. Ids outside of [0, vocab_size) in any list are passed over; validate() refuses what a
  // request may not name.
  SamplingState(const SamplingParams& params, std::span<const TokenId> prompt,
                std::span<const TokenId> end_token_ids, uint64_t seed, int32_t sample_index,
                int32_t vocab_size);

  void append(TokenId token);  // a generated token
  // The same past, another sample of the request: draws from a stream of its own from here on.
  SamplingState fork(int32_t sample_index) const;

  int32_t num_generated() const { return num_generated_; }
  const SamplingParams& params() const { return rules_->params; }
  const SamplingRules& rules() const { return *rules_; }
  const TokenCounts& counts() const { return counts_; }
  uint64_t seed() const { return seed_; }
  int32_t sample_index() const { return sample_index_; }
  int32_t vocab_size() const { return vocab_size_; }

 private:
  std::shared_ptr<const SamplingRules> rules_;
  TokenCounts counts_;
  uint64_t seed_ = 0;
  int32_t sample_index_ = 0;
  int32_t vocab_size_ = 0;
  int32_t num_generated_ = 0;
};

}  // namespace quire
