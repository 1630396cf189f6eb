#include "exec/constrained_output.h"

#include <algorithm>
#include <utility>

namespace quire {

ConstrainedOutput::ConstrainedOutput(const SequenceInit& init, std::shared_ptr<const SamplingRules> rules)
    : state_(init.constraint->start()), rules_(std::move(rules)) {
  if (init.sampling->ignore_eos) ignored_ = init.end_token_ids;
  find_forced();
}

ConstrainedOutput::ConstrainedOutput(const ConstrainedOutput& other)
    : state_(other.state_->clone()), rules_(other.rules_), ignored_(other.ignored_), forced_(other.forced_) {}

ConstrainedOutput& ConstrainedOutput::operator=(const ConstrainedOutput& other) {
  if (this != &other) *this = ConstrainedOutput(other);
  return *this;
}

Status ConstrainedOutput::fill(std::span<uint32_t> mask) {
  if (const TokenId token = forced(); token >= 0) {
    std::ranges::fill(mask, 0);
    mask[static_cast<size_t>(token) / 32] = 1U << (static_cast<size_t>(token) % 32);
    return {};
  }
  if (Status filled = state_->fill(mask); !filled.ok()) return filled;
  for (const TokenId token : ignored_) {
    const auto bit = static_cast<size_t>(token);
    if (token >= 0 && bit / 32 < mask.size()) mask[bit / 32] &= ~(1U << (bit % 32));
  }
  return {};
}

bool ConstrainedOutput::append(TokenId token) {
  if (!state_->accept(token)) return false;
  if (!forced_.empty()) forced_.pop_back();
  if (forced_.empty()) find_forced();
  return state_->finished();
}

void ConstrainedOutput::find_forced() {
  const bool has_bad_words = rules_->words != nullptr && !rules_->words->bad_words.empty();
  if (has_bad_words || state_->finished()) return;
  forced_ = state_->forced_tokens();
  const auto first = std::ranges::find_if(forced_, [this](TokenId token) { return ruled_out(token); });
  forced_.erase(first, forced_.end());
  std::ranges::reverse(forced_);
}

bool ConstrainedOutput::ruled_out(TokenId token) const {
  if (!rules_->allows_all && !std::ranges::binary_search(rules_->allowed, token)) return true;
  const std::vector<TokenId>& stops = rules_->params->stop_token_ids;
  return std::ranges::find(stops, token) != stops.end() ||
         std::ranges::any_of(rules_->logit_bias,
                             [token](const auto& bias) { return bias.first == token && bias.second < 0.0F; });
}

}  // namespace quire
