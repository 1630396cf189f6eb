#include "sample/dry.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quire {
namespace {

constexpr size_t kMaxRestTokens = 20;  // WordTokenizer makes no longer ones, as llama.cpp

// The tokens from the last one backwards.
class Reversed {
 public:
  explicit Reversed(std::span<const TokenId> history) : history_(history) {}
  TokenId operator[](size_t index) const { return history_[history_.size() - 1 - index]; }
  size_t size() const { return history_.size(); }

 private:
  std::span<const TokenId> history_;
};

// lengths[k]: how many tokens before the k-th last one are equal to the last tokens, itself included (the Z
// function of the reversed tokens, in linear time). lengths[0] is not set.
void measure(const Reversed& tokens, std::vector<int32_t>& lengths) {
  const size_t size = tokens.size();
  lengths.resize(size);
  size_t left = 0;
  size_t right = 0;  // tokens [left, right) are equal to tokens [0, right - left)
  for (size_t k = 1; k < size; ++k) {
    size_t length = 0;
    if (k < right) length = std::min(right - k, static_cast<size_t>(lengths[k - left]));
    while (k + length < size && tokens[length] == tokens[k + length]) ++length;
    lengths[k] = static_cast<int32_t>(length);
    if (k + length > right) {
      left = k;
      right = k + length;
    }
  }
}

}  // namespace

bool ends_with_breaker(std::span<const TokenId> history, const SequenceBreakers& breakers) {
  if (history.empty()) return false;
  if (std::binary_search(breakers.tokens.begin(), breakers.tokens.end(), history.back())) return true;
  if (breakers.splits.empty()) return false;
  const auto before = [](const SequenceBreakers::Split& split, TokenId token) { return split.head < token; };
  for (size_t length = 1; length <= kMaxRestTokens && length < history.size(); ++length) {
    const std::span<const TokenId> rest = history.last(length);
    const TokenId head = history[history.size() - length - 1];
    auto split = std::lower_bound(breakers.splits.begin(), breakers.splits.end(), head, before);
    for (; split != breakers.splits.end() && split->head == head; ++split) {
      if (std::equal(split->rest.rbegin(), split->rest.rend(), rest.rbegin(), rest.rend())) return true;
    }
  }
  return false;
}

void find_repetitions(std::span<const TokenId> history, int32_t max_length, const SequenceBreakers* breakers,
                      int32_t min_length, std::vector<int32_t>& scratch, std::vector<Repetition>& found) {
  found.clear();
  if (static_cast<int64_t>(history.size()) <= min_length) return;
  const Reversed tokens(history);
  const int32_t limit = std::min(max_length, static_cast<int32_t>(history.size()));
  if (limit < min_length) return;
  measure(tokens, scratch);
  for (size_t k = 1; k < tokens.size(); ++k) {
    const int32_t length = std::min(scratch[k], limit);
    if (length < min_length) continue;
    const TokenId next = tokens[k - 1];
    if (!found.empty() && found.back().token == next) {
      found.back().length = std::max(found.back().length, length);
    } else {
      found.push_back({next, length});
    }
  }
  std::sort(found.begin(), found.end(), [](const Repetition& a, const Repetition& b) {
    return a.token < b.token || (a.token == b.token && a.length > b.length);
  });
  const auto same = [](const Repetition& a, const Repetition& b) { return a.token == b.token; };
  found.erase(std::unique(found.begin(), found.end(), same), found.end());
  if (breakers == nullptr) return;
  std::erase_if(found, [&](const Repetition& repetition) {
    return std::binary_search(breakers->tokens.begin(), breakers->tokens.end(), repetition.token);
  });
}

float dry_penalty(int32_t length, float multiplier, float base, int32_t allowed_length) {
  const double penalty = double{multiplier} * std::pow(double{base}, double(length) - allowed_length);
  return static_cast<float>(std::min(penalty, double{std::numeric_limits<float>::max()}));
}

}  // namespace quire
