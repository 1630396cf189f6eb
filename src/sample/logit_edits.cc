#include "sample/logit_edits.h"

#include <algorithm>
#include <limits>

#include "sample/dry.h"

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

void LogitEdits::exclude(TokenId token) {
  if (token >= 0 && static_cast<size_t>(token) < logits_.size()) {
    set(token, -std::numeric_limits<float>::infinity());
  }
}

void LogitEdits::apply(const SamplingState& state, SamplerBuffers& buffers) {
  const SamplingRules& rules = state.rules();
  if (rules.words != nullptr && !rules.words->bad_words.empty()) exclude_bad_words(state);
  if (state.num_generated() < rules.params->min_tokens) {
    for (const TokenId token : rules.masked_until_min_tokens) exclude(token);
  }
  for (const auto& [token, bias] : rules.logit_bias) {
    set(token, logits_[static_cast<size_t>(token)] + bias);
  }
  if (rules.has_penalties) apply_penalties(state);
  if (rules.has_dry) apply_dry(state, buffers);
}

// The last token of a word is excluded where the output ends with the tokens before it.
void LogitEdits::exclude_bad_words(const SamplingState& state) {
  const std::span<const TokenId> output = state.output();
  for (const std::vector<TokenId>& word : state.rules().words->bad_words) {
    const size_t before = word.size() - 1;
    if (before > output.size()) continue;
    if (std::equal(word.begin(), word.end() - 1, output.end() - static_cast<ptrdiff_t>(before))) {
      exclude(word.back());
    }
  }
}

void LogitEdits::apply_penalties(const SamplingState& state) {
  const SamplingParams& params = state.params();
  for (const TokenCounts::Entry& entry : state.counts().entries()) {
    float logit = logits_[static_cast<size_t>(entry.token)];
    // Keskar et al., "CTRL", 2019, section 4.1, with the sign handled as in transformers and vLLM.
    logit = logit > 0.0F ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    logit -= params.frequency_penalty * static_cast<float>(entry.in_output);
    logit -= entry.in_output > 0 ? params.presence_penalty : 0.0F;
    set(entry.token, logit);
  }
}

void LogitEdits::apply_dry(const SamplingState& state, SamplerBuffers& buffers) {
  const SamplingParams& params = state.params();
  std::span<const TokenId> history = state.history();
  if (params.dry_penalty_last_n > 0 && static_cast<size_t>(params.dry_penalty_last_n) < history.size()) {
    history = history.last(static_cast<size_t>(params.dry_penalty_last_n));
  }
  const SamplingWords* words = state.rules().words.get();
  find_repetitions(history, state.since_breaker(), words != nullptr ? words->breakers.get() : nullptr,
                   params.dry_allowed_length, buffers.lengths, buffers.repetitions);
  for (const Repetition& found : buffers.repetitions) {
    if (found.token < 0 || static_cast<size_t>(found.token) >= logits_.size()) continue;
    const float logit = logits_[static_cast<size_t>(found.token)];
    if (logit == -std::numeric_limits<float>::infinity()) continue;
    const float penalty =
        dry_penalty(found.length, params.dry_multiplier, params.dry_base, params.dry_allowed_length);
    // The only token that a grammar allows stays one.
    set(found.token, std::max(logit - penalty, std::numeric_limits<float>::lowest()));
  }
}

}  // namespace quire
