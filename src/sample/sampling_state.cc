#include "sample/sampling_state.h"

#include <algorithm>
#include <cmath>

#include "sample/dry.h"

namespace quire {
namespace {

constexpr float kMaxLogitBias = 100.0F;

std::vector<TokenId> distinct_in_range(std::span<const TokenId> first, std::span<const TokenId> second,
                                       int32_t vocab_size) {
  std::vector<TokenId> ids(first.begin(), first.end());
  ids.insert(ids.end(), second.begin(), second.end());
  std::erase_if(ids, [&](TokenId id) { return id < 0 || id >= vocab_size; });
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

SamplingRules make_rules(const SharedSamplingParams& shared, std::span<const TokenId> end_token_ids,
                         int32_t vocab_size, SharedSamplingWords words) {
  SamplingRules rules;
  rules.params = shared;
  const SamplingParams& params = *shared;
  rules.allowed = distinct_in_range(params.allowed_token_ids, {}, vocab_size);
  rules.allows_all = params.allowed_token_ids.empty();
  if (params.min_tokens > 0) {
    rules.masked_until_min_tokens = distinct_in_range(params.stop_token_ids, end_token_ids, vocab_size);
  }
  for (const auto& [token, bias] : params.logit_bias) {
    if (token >= 0 && token < vocab_size && !std::isnan(bias)) {
      rules.logit_bias.emplace_back(token, std::clamp(bias, -kMaxLogitBias, kMaxLogitBias));
    }
  }
  // validate() has refused wrong names.
  if (auto chain = read_samplers(params.samplers); chain.ok()) rules.chain = std::move(*chain);
  rules.has_penalties =
      rules.chain.penalties && (params.repetition_penalty != 1.0F || params.presence_penalty != 0.0F ||
                                params.frequency_penalty != 0.0F);
  rules.has_dry = rules.chain.dry && params.dry_multiplier > 0.0F && params.dry_penalty_last_n != 0;
  rules.words = std::move(words);
  if (rules.words != nullptr) {
    const auto is_long = [](const std::vector<TokenId>& word) { return word.size() > 1; };
    rules.has_long_words = std::any_of(rules.words->bad_words.begin(), rules.words->bad_words.end(), is_long);
  }
  return rules;
}

}  // namespace

SamplingState::SamplingState(const SharedSamplingParams& params, std::span<const TokenId> prompt,
                             std::span<const TokenId> end_token_ids, uint64_t seed, int32_t sample_index,
                             int32_t vocab_size, SharedSamplingWords words)
    : SamplingState(std::make_shared<const SamplingRules>(
                        make_rules(params, end_token_ids, vocab_size, std::move(words))),
                    prompt, seed, sample_index, vocab_size) {}

SamplingState::SamplingState(std::shared_ptr<const SamplingRules> rules, std::span<const TokenId> prompt,
                             uint64_t seed, int32_t sample_index, int32_t vocab_size)
    : rules_(std::move(rules)), seed_(seed), sample_index_(sample_index), vocab_size_(vocab_size) {
  max_surprise_ = 2.0 * double{params().mirostat_tau};
  if (rules_->has_dry) {
    history_.assign(prompt.begin(), prompt.end());
    num_prompt_ = history_.size();
    // From the end: breakers are frequent, and a prompt may be long.
    size_t after_breaker = num_prompt_;
    while (after_breaker > 0 && !ends_at_breaker(prompt.first(after_breaker))) --after_breaker;
    since_breaker_ = static_cast<int32_t>(num_prompt_ - after_breaker);
  }
  if (rules_->has_penalties && params().repetition_penalty != 1.0F) {
    for (const TokenId token : prompt) {
      if (token >= 0 && token < vocab_size) {
        counts_.add_prompt(token);
      }
    }
  }
}

void SamplingState::append(TokenId token, float surprise) {
  ++num_generated_;
  if (rules_->has_dry || rules_->has_long_words) history_.push_back(token);
  // Once per token, so that a step does not search the whole history.
  if (rules_->has_dry) since_breaker_ = ends_at_breaker(history_) ? 0 : since_breaker_ + 1;
  if (params().mirostat_mode != 0) {
    max_surprise_ -= double{params().mirostat_eta} * (double{surprise} - double{params().mirostat_tau});
  }
  if (rules_->has_penalties && token >= 0 && token < vocab_size_) {
    counts_.add_output(token);
  }
}

bool SamplingState::ends_at_breaker(std::span<const TokenId> history) const {
  const SamplingWords* words = rules_->words.get();
  return words != nullptr && words->breakers != nullptr && ends_with_breaker(history, *words->breakers);
}

SamplingState SamplingState::fork(int32_t sample_index) const {
  SamplingState child = *this;
  child.sample_index_ = sample_index;
  return child;
}

}  // namespace quire
