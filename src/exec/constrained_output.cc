#include "exec/constrained_output.h"

#include <algorithm>

namespace quire {

ConstrainedOutput::ConstrainedOutput(const SequenceInit& init)
    : state_(init.constraint->start()), sampling_(init.sampling), has_bad_words_(init.words != nullptr) {
  if (sampling_->ignore_eos) ignored_ = init.end_token_ids;
  find_forced();
}

ConstrainedOutput::ConstrainedOutput(const ConstrainedOutput& other)
    : state_(other.state_->clone()),
      sampling_(other.sampling_),
      has_bad_words_(other.has_bad_words_),
      ignored_(other.ignored_),
      forced_(other.forced_) {}

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
  if (has_bad_words_ || state_->finished()) return;
  forced_ = state_->forced_tokens();
  const auto first = std::ranges::find_if(forced_, [this](TokenId token) { return ruled_out(token); });
  forced_.erase(first, forced_.end());
  std::ranges::reverse(forced_);
}

bool ConstrainedOutput::ruled_out(TokenId token) const {
  const auto contains = [token](const std::vector<TokenId>& ids) {
    return std::ranges::find(ids, token) != ids.end();
  };
  if (!sampling_->allowed_token_ids.empty() && !contains(sampling_->allowed_token_ids)) return true;
  return contains(sampling_->stop_token_ids) ||
         std::ranges::any_of(sampling_->logit_bias,
                             [token](const auto& bias) { return bias.first == token && bias.second < 0.0F; });
}

}  // namespace quire
