// Applies a request's changes to single logits and undoes them.
#pragma once

#include <span>
#include <vector>

#include "sample/buffers.h"
#include "sample/sampling_state.h"

namespace quire {

// Changes a row of logits and restores it in the destructor. Used within one call of the sampler.
class LogitEdits {
 public:
  LogitEdits(std::span<float> logits, std::vector<LogitEdit>& log);
  ~LogitEdits();
  LogitEdits(const LogitEdits&) = delete;
  LogitEdits& operator=(const LogitEdits&) = delete;

  // bad_words, min_tokens, logit_bias, then repetition, frequency and presence penalty, then DRY.
  void apply(const SamplingState& state, SamplerBuffers& buffers);
  bool any() const { return !log_.empty(); }
  void undo();

 private:
  void set(TokenId token, float value);
  void exclude(TokenId token);
  void exclude_bad_words(const SamplingState& state);
  void apply_penalties(const SamplingState& state);
  void apply_dry(const SamplingState& state, SamplerBuffers& buffers);

  std::span<float> logits_;      // [vocab_size]
  std::vector<LogitEdit>& log_;  // in order
};

}  // namespace quire
