#include "sample/logit_edits.h"

#include <algorithm>
#include <limits>

namespace quire {

LogitEdits::LogitEdits(std::span<float> logits, std::vector<LogitEdit>& log) : logits_(logits), log_(log) {
  log_.clear();
}

LogitEdits::~LogitEdits() {
  undo();
}

void LogitEdits::undo() {
  for (auto it = log_.rbegin(); it != log_.rend(); ++it) {
    logits_[static_cast<size_t>(it->token)] = it->before;
  }
  log_.clear();
}

void LogitEdits::set(TokenId token, float value) {
  float& logit = logits_[static_cast<size_t>(token)];
  log_.push_back({token, logit});
  // Dividing by a tiny repetition penalty can overflow; an infinite logit has no defined probability.
  logit = std::min(value, std::numeric_limits<float>::max());
}

void LogitEdits::apply(const SamplingState& state) {
  const SamplingRules& rules = state.rules();
  const SamplingParams& params = *rules.params;
  if (state.num_generated() < params.min_tokens) {
    for (const TokenId token : rules.masked_until_min_tokens) {
      set(token, -std::numeric_limits<float>::infinity());
    }
  }
  for (const auto& [token, bias] : rules.logit_bias) {
    set(token, logits_[static_cast<size_t>(token)] + bias);
  }
  if (!rules.has_penalties) {
    return;
  }
  for (const TokenCounts::Entry& entry : state.counts().entries()) {
    float logit = logits_[static_cast<size_t>(entry.token)];
    // Keskar et al., "CTRL", 2019, section 4.1, with the sign handled as in transformers and vLLM.
    logit = logit > 0.0F ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    logit -= params.frequency_penalty * static_cast<float>(entry.in_output);
    logit -= entry.in_output > 0 ? params.presence_penalty : 0.0F;
    set(entry.token, logit);
  }
}

}  // namespace quire
