#include "grammar/reasoning_budget.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace quire::grammar {
namespace {

// Tokens by which the rest of a character may exceed the budget.
constexpr int32_t kMaxCharacterRest = 3;

// Bytes of a character of which a text has only the beginning.
class CharacterRest {
 public:
  void push(std::string_view text) {
    for (const char c : text) {
      const auto byte = static_cast<uint8_t>(c);
      if (byte >= 0xC0) {
        missing_ = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : 1;
      } else if (byte >= 0x80 && missing_ > 0) {
        --missing_;
      } else {
        missing_ = 0;
      }
    }
  }
  bool any() const { return missing_ > 0; }

 private:
  int missing_ = 0;
};

// Counts the tokens of reasoning in an output.
class ReasoningCounter {
 public:
  explicit ReasoningCounter(const ReasoningBudget& budget) : parser_(budget.reading) {}

  void push(const ReasoningBudget& budget, TokenId token) {
    const bool was_in_reasoning = parser_.in_reasoning();
    const bool marker = parser_.is_marker(token);
    last_events_.clear();
    if (marker) {
      rest_ = {};
      parser_.push_marker(token, last_events_);
    } else {
      const std::string text = budget.text_of(token);
      rest_.push(text);
      parser_.push(text, last_events_);
    }
    const bool counts = was_in_reasoning && (!marker || parser_.in_reasoning());
    if (counts || has_reasoning(last_events_)) ++count_;
  }

  // Whether the reasoning has to end now.
  bool is_due(const ReasoningBudget& budget) const {
    if (!parser_.in_reasoning() || count_ < budget.tokens) return false;
    return !rest_.any() || count_ - budget.tokens >= kMaxCharacterRest;
  }
  // Tokens that may follow before the reasoning is due to end.
  int64_t left(const ReasoningBudget& budget) const {
    return parser_.in_reasoning() ? std::max<int64_t>(0, budget.tokens - count_) : INT64_MAX;
  }
  bool may_reason() const { return parser_.may_reason(); }

 private:
  OutputParser parser_;
  std::vector<OutputEvent> last_events_;
  int64_t count_ = 0;
  CharacterRest rest_;
};

class BudgetState final : public ConstraintState {
 public:
  BudgetState(std::shared_ptr<const ReasoningBudget> budget, std::unique_ptr<ConstraintState> within)
      : budget_(std::move(budget)), within_(std::move(within)) {
    read_again();
  }
  BudgetState(const BudgetState& other)
      : ConstraintState(other),
        budget_(other.budget_),
        within_(other.within_ == nullptr ? nullptr : other.within_->clone()),
        tokens_(other.tokens_) {
    if (other.counter_) read_again();
  }
  BudgetState& operator=(const BudgetState&) = delete;

  Status fill(std::span<uint32_t> mask) override {
    if (within_ == nullptr) {
      std::ranges::fill(mask, ~uint32_t{0});
    } else if (Status filled = within_->fill(mask); !filled.ok()) {
      return filled;
    }
    if (!is_due()) return {};
    const auto marker = static_cast<size_t>(next_of_end());
    const uint32_t bit = uint32_t{1} << (marker % 32);
    if ((mask[marker / 32] & bit) == 0) return {};
    std::ranges::fill(mask, 0);
    mask[marker / 32] = bit;
    return {};
  }

  bool unrestricted() const override { return within_ == nullptr && !is_due(); }

  bool accept(TokenId token) override {
    if (is_due()) {
      const TokenId marker = next_of_end();
      const bool can_end = within_ == nullptr || within_->clone()->accept(marker);
      if (can_end && token != marker) return false;
    }
    if (within_ != nullptr && !within_->accept(token)) return false;
    tokens_.push_back(token);
    if (counter_) count(token);
    return true;
  }

  void rollback(size_t count) override {
    count = std::min(count, tokens_.size());
    tokens_.resize(tokens_.size() - count);
    if (within_ != nullptr) within_->rollback(count);
    read_again();
  }

  std::unique_ptr<ConstraintState> clone() const override { return std::make_unique<BudgetState>(*this); }
  bool complete() const override { return within_ == nullptr ? !is_due() : within_->complete(); }
  bool finished() const override { return within_ != nullptr && within_->finished(); }
  std::string forced_bytes() const override {
    return within_ == nullptr || is_due() ? std::string() : within_->forced_bytes();
  }
  std::vector<TokenId> forced_tokens() const override {
    if (within_ == nullptr || is_due()) return {};
    std::vector<TokenId> tokens = within_->forced_tokens();
    const int64_t left = counter_ ? counter_->left(*budget_) : INT64_MAX;
    if (static_cast<int64_t>(tokens.size()) > left) tokens.resize(static_cast<size_t>(left));
    return tokens;
  }

 private:
  bool is_due() const { return counter_ && counter_->is_due(*budget_); }

  // The output may end with the beginning of the marker.
  TokenId next_of_end() const {
    const std::vector<TokenId>& end = budget_->end;
    for (size_t size = std::min(end.size() - 1, tokens_.size()); size > 0; --size) {
      if (std::equal(end.begin(), end.begin() + static_cast<std::ptrdiff_t>(size),
                     tokens_.end() - static_cast<std::ptrdiff_t>(size)))
        return end[size];
    }
    return end[0];
  }

  void count(TokenId token) {
    counter_->push(*budget_, token);
    if (!counter_->may_reason()) counter_.reset();
  }

  void read_again() {
    counter_.emplace(*budget_);
    for (const TokenId token : tokens_) {
      if (counter_) count(token);
    }
  }

  std::shared_ptr<const ReasoningBudget> budget_;
  std::unique_ptr<ConstraintState> within_;  // null = no other constraint
  std::vector<TokenId> tokens_;
  std::optional<ReasoningCounter> counter_;  // while reasoning can come
};

class BudgetConstraint final : public OutputConstraint {
 public:
  BudgetConstraint(ReasoningBudget budget, SharedConstraint within)
      : budget_(std::make_shared<const ReasoningBudget>(std::move(budget))), within_(std::move(within)) {
    if (within_ != nullptr) ignored_ = within_->ignored();
  }

  std::unique_ptr<ConstraintState> start() const override {
    return std::make_unique<BudgetState>(budget_, within_ == nullptr ? nullptr : within_->start());
  }
  size_t memory() const override {
    return sizeof(ReasoningBudget) + (within_ == nullptr ? 0 : within_->memory());
  }

 private:
  std::shared_ptr<const ReasoningBudget> budget_;
  SharedConstraint within_;
};

}  // namespace

SharedConstraint limit_reasoning(ReasoningBudget budget, SharedConstraint within) {
  return std::make_shared<const BudgetConstraint>(std::move(budget), std::move(within));
}

}  // namespace quire::grammar
