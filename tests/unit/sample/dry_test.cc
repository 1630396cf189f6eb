// The search for repetitions, against its definition, and its rules for sequence breakers.
#include "sample/dry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <span>
#include <vector>

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<std::pair<TokenId, int32_t>> repetitions(const std::vector<TokenId>& history,
                                                     int32_t min_length = 2,
                                                     const SequenceBreakers* breakers = nullptr) {
  std::vector<int32_t> scratch;
  std::vector<Repetition> found;
  int32_t since_breaker = 0;
  for (size_t i = 1; i <= history.size(); ++i) {
    const auto past = std::span(history).first(i);
    since_breaker = breakers != nullptr && ends_with_breaker(past, *breakers) ? 0 : since_breaker + 1;
  }
  find_repetitions(history, since_breaker, breakers, min_length, scratch, found);
  std::vector<std::pair<TokenId, int32_t>> pairs;
  for (const Repetition& one : found) pairs.emplace_back(one.token, one.length);
  return pairs;
}

TEST(Dry, FindsTheTokenThatFollowedTheLongestRepetition) {
  EXPECT_THAT(repetitions({1, 2, 3, 4, 9, 1, 2, 3}), ElementsAre(Pair(4, 3)));
  EXPECT_THAT(repetitions({1, 2, 4, 9, 1, 2, 5, 8, 1, 2}), ElementsAre(Pair(4, 2), Pair(5, 2)));
  // After 7, 1, 2 stood 4; after 1, 2 alone stood 5: the longest counts for each.
  EXPECT_THAT(repetitions({7, 1, 2, 4, 1, 2, 4, 9, 7, 1, 2}), ElementsAre(Pair(4, 3)));
  EXPECT_THAT(repetitions({1, 2, 3, 4}), IsEmpty());
  EXPECT_THAT(repetitions({}), IsEmpty());
  EXPECT_THAT(repetitions({5, 6}), IsEmpty());
}

TEST(Dry, RepetitionsOverlap) {
  EXPECT_THAT(repetitions({1, 1, 1, 1, 1}), ElementsAre(Pair(1, 4)));
  EXPECT_THAT(repetitions({1, 2, 1, 2, 1}), ElementsAre(Pair(2, 3)));
}

TEST(Dry, RepetitionsDoNotCrossBreakers) {
  SequenceBreakers breakers;
  breakers.tokens = {3};
  EXPECT_THAT(repetitions({1, 3, 2, 4, 9, 1, 3, 2}, 1, &breakers), ElementsAre(Pair(4, 1)));
  EXPECT_THAT(repetitions({1, 3, 2, 4, 9, 1, 3, 2}, 2, &breakers), IsEmpty());
  EXPECT_THAT(repetitions({1, 2, 3, 9, 1, 2}, 2, &breakers), IsEmpty()) << "the token is itself a breaker";
  breakers.tokens.clear();
  breakers.splits = {{1, {8}}, {1, {2, 3}}};
  EXPECT_THAT(repetitions({1, 2, 3, 4, 9, 1, 2, 3}, 1, &breakers), IsEmpty());
  EXPECT_THAT(repetitions({1, 2, 3, 5, 4, 9, 1, 2, 3, 5}, 1, &breakers), ElementsAre(Pair(4, 1)));
  // The breaker that ends last counts, also if a shorter one stands in it.
  breakers.tokens = {2};
  EXPECT_THAT(repetitions({2, 3, 4, 9, 1, 2, 3}, 1, &breakers), IsEmpty());
}

TEST(Dry, MatchesTheDefinitionForRandomTexts) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<TokenId> history(random() % 60);
    for (TokenId& token : history) token = static_cast<TokenId>(random() % 3);
    std::map<TokenId, int32_t> expected;
    for (size_t next = 1; next < history.size(); ++next) {
      size_t length = 0;
      while (length < next && history[next - 1 - length] == history[history.size() - 1 - length]) ++length;
      int32_t& longest = expected[history[next]];
      longest = std::max(longest, static_cast<int32_t>(length));
    }
    std::erase_if(expected, [](const auto& entry) { return entry.second < 2; });
    const std::vector<std::pair<TokenId, int32_t>> pairs(expected.begin(), expected.end());
    EXPECT_EQ(repetitions(history), pairs) << "round " << round;
  }
}

TEST(Dry, PenaltyGrowsWithTheLengthAndStaysFinite) {
  EXPECT_FLOAT_EQ(dry_penalty(2, 0.8F, 1.75F, 2), 0.8F);
  EXPECT_FLOAT_EQ(dry_penalty(4, 0.8F, 2.0F, 2), 3.2F);
  EXPECT_EQ(dry_penalty(100000, 5.0F, 1.75F, 2), std::numeric_limits<float>::max());
}

}  // namespace
}  // namespace quire
