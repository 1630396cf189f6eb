// From a row of logits to a token.
//
// The order of the steps is vLLM's: raw log-probabilities; allowed ids and the grammar's mask; min_tokens and
// logit_bias; repetition, then frequency and presence penalty; then the most likely token (greedy), or
// temperature, min_p, top_k, top_p and a draw.
//
// Everything here is a function of its own row, state and position: sums run over fixed blocks of the
// vocabulary in a fixed order, so the answer is bitwise the same in any batch and on any thread. Of equal
// logits the lower token id counts as the more likely, everywhere. No function sorts the vocabulary or
// allocates, but for the records that it returns.
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

// A set of tokens as bits: token t is bit t % 32 of word t / 32. Empty: every token; else at least
// ceil(vocab_size / 32) words.
using TokenMask = std::span<const uint32_t>;

struct BeamRow;  // sample/beam_search.h

struct SampleOutcome {
  TokenId token = -1;
  float logprob = 0.0F;                      // of the raw logits
  std::optional<PositionLogprobs> logprobs;  // where the request asked for logprobs
};

// Draws the token of absolute position `position` (the prompt's first token has position 0). The position is
// the counter of the random number, so drawing it again after a preemption gives the same token. The draw is
// the inverse of the cumulative distribution of the kept tokens in ascending order of id, with one uniform
// number. logits [vocab_size]: scratch during the call, raw again after it. `grammar` may be empty. Failure
// kInternal: the logits are not numbers. Failure kInvalidArgument: the masks leave no token.
Result<SampleOutcome> sample_token(std::span<float> logits, const SamplingState& state, int64_t position,
                                   SamplerWorkspace& workspace, TokenMask grammar = {});

struct TokenProbability {
  TokenId token = -1;
  float probability = 0.0F;
};

// The distribution that sample_token draws from: the kept tokens with a probability above 0, ascending by id,
// summing to 1. Greedy: one token. Same arguments and failures as sample_token.
Result<std::vector<TokenProbability>> filtered_distribution(std::span<float> logits,
                                                            const SamplingState& state,
                                                            SamplerWorkspace& workspace,
                                                            TokenMask grammar = {});

// For beam search: the `count` tokens with the largest gains, and the alternatives that the request asked
// for. Temperature, truncation and penalties play no part. Same arguments and failures as sample_token.
Status fill_beam_row(std::span<float> logits, const SamplingState& state, size_t count,
                     SamplerWorkspace& workspace, BeamRow& beam_row, TokenMask grammar = {});

// For prompt_logprobs and echo: the log-softmax of the row as it is, `chosen`'s log-probability and rank, and
// the k most likely tokens (k = -1: all). logits [vocab_size]; chosen in [0, vocab_size). Failure kInternal:
// the logits are not numbers.
Result<PositionLogprobs> position_logprobs(std::span<const float> logits, TokenId chosen, int32_t k,
                                           SamplerWorkspace& workspace);

}  // namespace quire
