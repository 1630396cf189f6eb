// Samples a token from a row of logits.
//
// The order of the steps is vLLM's: raw log-probabilities; allowed ids and the grammar's mask; bad_words,
// min_tokens and logit_bias; repetition, then frequency and presence penalty; DRY; then the most likely token
// (greedy), or the chain of samplers (sample/sampler_chain.h) and a draw.
//
// All functions depend on their own row, state and position only. Sums run over fixed blocks of the
// vocabulary in a fixed order, so results are bitwise the same in any batch and on any thread. For equal
// logits the lower token id ranks first. No function sorts the vocabulary, and none allocates memory except
// for the returned records.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "contract/ids.h"
#include "contract/step_result.h"
#include "sample/sampling_state.h"
#include "sample/workspace.h"

namespace quire {

// A set of tokens as bits: token t is bit t % 32 of word t / 32. Empty = all tokens; otherwise at
// least ceil(vocab_size / 32) words.
using TokenMask = std::span<const uint32_t>;

struct BeamRow;  // sample/beam_search.h

struct SampleOutcome {
  TokenId token = -1;
  float logprob = 0.0F;                      // what the workspace's LogprobsMode reports
  std::optional<PositionLogprobs> logprobs;  // if the request asks for logprobs
  float surprise = 0.0F;                     // for SamplingState::append(); 0 without Mirostat
};

// Samples the token at the absolute position `position` (0 = the prompt's first token). The position is the
// counter of the random number generator, so resampling after a preemption gives the same token.
// logits [vocab_size]: modified during the call and restored. `grammar` may be empty. Fails with kInternal if
// the logits contain NaN, and with kInvalidArgument if the masks leave no token.
Result<SampleOutcome> sample_token(std::span<float> logits, const SamplingState& state, int64_t position,
                                   SamplerWorkspace& workspace, TokenMask grammar = {});

struct TokenProbability {
  TokenId token = -1;
  float probability = 0.0F;
};

// Returns the distribution used by sample_token: the kept tokens with positive probability, ascending by id,
// normalized to 1 (greedy: one token). Same arguments and failures as sample_token; the position matters with
// XTC only.
Result<std::vector<TokenProbability>> filtered_distribution(std::span<float> logits,
                                                            const SamplingState& state,
                                                            SamplerWorkspace& workspace,
                                                            TokenMask grammar = {}, int64_t position = 0);

// For beam search: returns the `count` tokens with the largest gains and the requested top logprobs.
// Temperature, truncation and penalties are not applied. Same arguments and failures as sample_token.
Status fill_beam_row(std::span<float> logits, const SamplingState& state, size_t count,
                     SamplerWorkspace& workspace, BeamRow& beam_row, TokenMask grammar = {});

// Which tokens a PositionLogprobs lists: `ids` in this order, or without any the `count` most likely ones (-1
// = all).
struct Alternatives {
  int32_t count = 0;
  std::span<const TokenId> ids;  // ids outside of the vocabulary are left out
};

// For prompt_logprobs and echo: returns the log-probability (or logit, LogprobsMode) and rank of `chosen` in
// the raw row, and the alternatives. logits [vocab_size]; chosen in [0, vocab_size). Fails with kInternal if
// the logits contain NaN.
Result<PositionLogprobs> position_logprobs(std::span<const float> logits, TokenId chosen,
                                           const Alternatives& alternatives, SamplerWorkspace& workspace);

}  // namespace quire
