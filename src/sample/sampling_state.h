// Sampler state of one sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "contract/ids.h"
#include "contract/sampling_params.h"
#include "contract/sampling_words.h"
#include "sample/sampler_chain.h"
#include "sample/token_counts.h"

namespace quire {

// A request's parameters, preprocessed once for the model and shared by all samples of the request.
// Immutable.
struct SamplingRules {
  SharedSamplingParams params;
  bool allows_all = true;                             // the request has no allowed_token_ids
  std::vector<TokenId> allowed;                       // otherwise the allowed ids, sorted and unique
  std::vector<TokenId> masked_until_min_tokens;       // stop and end tokens, the latter also with ignore_eos
  std::vector<std::pair<TokenId, float>> logit_bias;  // values clamped to [-100, 100]
  bool has_penalties = false;   // repetition, presence or frequency penalty is set and applied
  bool has_dry = false;         // the same for DRY
  SamplerChain chain;           // the steps after these
  SharedSamplingWords words;    // bad words and sequence breakers; null = none
  bool has_long_words = false;  // a bad word of several tokens
};

// Owned by the executor's sequence record; not thread-safe. It has no table of the size of the vocabulary:
// counts are kept for the distinct tokens of the sequence, and only if the request sets a penalty. The tokens
// themselves are kept only for DRY and for bad words of several tokens.
class SamplingState {
 public:
  // prompt: for the repetition penalty. end_token_ids: the model's. sample_index: 0 .. n-1, selects the
  // random stream. Ids outside [0, vocab_size) are ignored in all lists; validate() rejects them in requests.
  SamplingState(const SharedSamplingParams& params, std::span<const TokenId> prompt,
                std::span<const TokenId> end_token_ids, uint64_t seed, int32_t sample_index,
                int32_t vocab_size, SharedSamplingWords words = nullptr);
  // The same with rules that were made before, for another prompt of the request.
  SamplingState(std::shared_ptr<const SamplingRules> rules, std::span<const TokenId> prompt, uint64_t seed,
                int32_t sample_index, int32_t vocab_size);

  // A generated token, and its surprise as sample_token() returned it.
  void append(TokenId token, float surprise = 0.0F);
  // Returns a copy for another sample of the request, with a separate random stream.
  SamplingState fork(int32_t sample_index) const;

  int32_t num_generated() const { return num_generated_; }
  const SamplingParams& params() const { return *rules_->params; }
  const std::shared_ptr<const SamplingRules>& shared_rules() const { return rules_; }
  const SamplingRules& rules() const { return *rules_; }
  const TokenCounts& counts() const { return counts_; }
  // Prompt and output, and the output alone; empty unless a sampler needs them.
  std::span<const TokenId> history() const { return history_; }
  std::span<const TokenId> output() const { return std::span(history_).subspan(num_prompt_); }
  // DRY: the number of tokens after the last sequence breaker.
  int32_t since_breaker() const { return since_breaker_; }
  // Mirostat: the surprise in bits of the least likely token that may be drawn next.
  double max_surprise() const { return max_surprise_; }
  uint64_t seed() const { return seed_; }
  int32_t sample_index() const { return sample_index_; }
  int32_t vocab_size() const { return vocab_size_; }

 private:
  bool ends_at_breaker(std::span<const TokenId> history) const;

  std::shared_ptr<const SamplingRules> rules_;
  TokenCounts counts_;
  std::vector<TokenId> history_;
  size_t num_prompt_ = 0;  // tokens of the prompt in history_
  int32_t since_breaker_ = 0;
  double max_surprise_ = 0.0;
  uint64_t seed_ = 0;
  int32_t sample_index_ = 0;
  int32_t vocab_size_ = 0;
  int32_t num_generated_ = 0;
};

}  // namespace quire
