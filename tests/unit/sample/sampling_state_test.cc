#include "sample/sampling_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <vector>

namespace quire {
namespace {

using ::testing::ElementsAre;

TEST(TokenCounts, MatchesCountingWithAMap) {
  TokenCounts counts;
  std::map<TokenId, int32_t> expected;
  std::mt19937 generator(1);
  for (int i = 0; i < 20000; ++i) {
    const auto token = static_cast<TokenId>(generator() % 3000);
    if (i % 3 == 0) {
      counts.add_prompt(token);
      expected[token] += 0;
    } else {
      counts.add_output(token);
      ++expected[token];
    }
  }
  ASSERT_EQ(counts.entries().size(), expected.size());
  for (const TokenCounts::Entry& entry : counts.entries()) {
    EXPECT_EQ(entry.in_output, expected.at(entry.token));
  }
}

TEST(SamplingState, StoresNoTokensWithoutPenalties) {
  SamplingState state({}, std::vector<TokenId>{1, 2, 3}, {}, 1, 0, 10);
  state.append(4);
  EXPECT_EQ(state.num_generated(), 1);
  EXPECT_TRUE(state.counts().entries().empty());
}

TEST(SamplingState, ForksShareOnlyThePast) {
  SamplingParams params;
  params.frequency_penalty = 1.0F;
  SamplingState parent(params, {}, {}, 77, 0, 10);
  parent.append(4);
  SamplingState child = parent.fork(3);
  child.append(4);
  EXPECT_EQ(child.sample_index(), 3);
  EXPECT_EQ(child.seed(), 77U);
  EXPECT_EQ(child.num_generated(), 2);
  EXPECT_EQ(child.counts().entries()[0].in_output, 2);
  EXPECT_EQ(parent.num_generated(), 1);
  EXPECT_EQ(parent.counts().entries()[0].in_output, 1);
}

TEST(SamplingState, IgnoresIdsOutsideOfTheVocabulary) {
  SamplingParams params;
  params.repetition_penalty = 1.5F;
  params.min_tokens = 1;
  params.stop_token_ids = {-1, 9, 10};
  params.allowed_token_ids = {12, 4, -3, 4};
  params.logit_bias = {{-1, 1.0F}, {10, 1.0F}, {2, 500.0F}, {3, std::numeric_limits<float>::quiet_NaN()}};
  SamplingState state(params, std::vector<TokenId>{-1, 5, 10}, std::vector<TokenId>{9, 8, 99}, 1, 0, 10);
  state.append(-1);
  state.append(100);
  EXPECT_EQ(state.counts().entries().size(), 1U);
  EXPECT_THAT(state.rules().allowed, ElementsAre(4));
  EXPECT_THAT(state.rules().masked_until_min_tokens, ElementsAre(8, 9));
  ASSERT_EQ(state.rules().logit_bias.size(), 1U);
  EXPECT_EQ(state.rules().logit_bias[0].second, 100.0F);
}

}  // namespace
}  // namespace quire
