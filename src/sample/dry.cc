#include "sample/dry.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quire {
namespace {

// The tokens from the last one backwards.
class Reversed {
 public:
  explicit Reversed(std::span<const TokenId> history) : history_(history) {}
  TokenId operator[](size_t index) const { return history_[history_.size() - 1 - index]; }
  size_t size() const { return history_.size(); }

 private:
  std::span<const TokenId> history_;
};

// The number of tokens of the longest breaker that begins with the token `index` places before the last one:
// 0 = the token itself is or contains a breaker, n = the n tokens after it complete one; -1 = none begins.
int32_t breaker_at(const SequenceBreakers& breakers, const Reversed& tokens, size_t index) {
  const TokenId head = tokens[index];
  int32_t longest = std::binary_search(breakers.tokens.begin(), breakers.tokens.end(), head) ? 0 : -1;
  auto split =
      std::lower_bound(breakers.splits.begin(), breakers.splits.end(), head,
                       [](const SequenceBreakers::Split& s, TokenId token) { return s.head < token; });
  for (; split != breakers.splits.end() && split->head == head; ++split) {
    const std::vector<TokenId>& rest = split->rest;
    if (rest.size() > index || static_cast<int32_t>(rest.size()) <= longest) continue;
    bool equal = true;
    for (size_t i = 0; i < rest.size() && equal; ++i) equal = tokens[index - 1 - i] == rest[i];
    if (equal) longest = static_cast<int32_t>(rest.size());
  }
  return longest;
}

// The number of tokens after the last sequence breaker.
size_t longest_repetition(const SequenceBreakers* breakers, const Reversed& tokens) {
  if (breakers == nullptr) return tokens.size();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int32_t length = breaker_at(*breakers, tokens, i);
    if (length >= 0) return i - static_cast<size_t>(length);
  }
  return tokens.size();
}

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

void find_repetitions(std::span<const TokenId> history, const SequenceBreakers* breakers, int32_t min_length,
                      std::vector<int32_t>& scratch, std::vector<Repetition>& found) {
  found.clear();
  if (static_cast<int64_t>(history.size()) <= min_length) return;
  const Reversed tokens(history);
  const auto limit = static_cast<int32_t>(longest_repetition(breakers, tokens));
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
